/** The progress line of a long transfer, on a terminal only: bar, share, records, rate, time left. */
import { bytes, count, duration } from '../../../platform/quantities.ts'
import { io } from '../io.ts'

export interface Progress {
  /** So far: offset in the input and records sent. */
  update(doneBytes: number, records: number): void
  /** A line above the progress line. */
  note(text: string): void
  end(): void
}

const redrawMs = 100
const barWidth = 24

/** `totalBytes` null: the size of the input is not known. `startBytes`: sent by an earlier run. */
export function openProgress(totalBytes: number | null, startBytes: number): Progress {
  if (io().stderr.isTTY !== true) {
    return { update: () => {}, note: (text) => io().stderr.write(`${text}\n`), end: () => {} }
  }
  const startedMs = Date.now()
  let startRecords: number | null = null
  let drawnMs = 0
  let line = ''
  const draw = () => io().stderr.write(`\r\x1b[K${line.slice(0, (io().stderr.columns ?? 80) - 1)}`)
  return {
    update(doneBytes, records) {
      startRecords ??= records
      const now = Date.now()
      if (now - drawnMs < redrawMs && doneBytes !== totalBytes) return
      drawnMs = now
      const seconds = Math.max(0.001, (now - startedMs) / 1000)
      line = progressLine(totalBytes, doneBytes, records, {
        recordsPerSecond: (records - startRecords) / seconds,
        bytesPerSecond: (doneBytes - startBytes) / seconds,
      })
      draw()
    },
    note(text) {
      io().stderr.write(`\r\x1b[K${text}\n`)
      draw()
    },
    end: () => io().stderr.write('\r\x1b[K'),
  }
}

export function progressLine(
  totalBytes: number | null,
  doneBytes: number,
  records: number,
  rate: { recordsPerSecond: number; bytesPerSecond: number },
): string {
  const speed = `${count(records)} records  ${count(rate.recordsPerSecond)}/s`
  if (totalBytes === null || totalBytes === 0) return `${bytes(doneBytes)}  ${speed}`
  const share = Math.min(1, doneBytes / totalBytes)
  const filled = Math.round(share * barWidth)
  const bar = '█'.repeat(filled) + '░'.repeat(barWidth - filled)
  const left =
    rate.bytesPerSecond > 0 ? duration(Math.ceil((totalBytes - doneBytes) / rate.bytesPerSecond)) : '?'
  return `${bar} ${Math.floor(share * 100)}%  ${speed}  ${left} left`
}
