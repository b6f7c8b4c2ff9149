/** The progress line of work whose size is known: bar, share, rate, time left. On a terminal only. */
import { bytes, duration } from '../../platform/quantities.ts'
import { io } from './io.ts'

const redrawMs = 100
const barWidth = 24

export interface ByteProgress {
  update(doneBytes: number, totalBytes: number): void
  end(): void
}

export function openByteProgress(): ByteProgress {
  if (io().stderr.isTTY !== true) return { update: () => {}, end: () => {} }
  const startedMs = Date.now()
  let drawnMs = 0
  return {
    update(doneBytes, totalBytes) {
      const now = Date.now()
      if (now - drawnMs < redrawMs) return
      drawnMs = now
      const line = byteProgressLine(doneBytes, totalBytes, (now - startedMs) / 1000)
      io().stderr.write(`\r\x1b[K${line.slice(0, (io().stderr.columns ?? 80) - 1)}`)
    },
    end: () => io().stderr.write('\r\x1b[K'),
  }
}

export function byteProgressLine(doneBytes: number, totalBytes: number, seconds: number): string {
  const share = totalBytes === 0 ? 1 : Math.min(1, doneBytes / totalBytes)
  const filled = Math.round(share * barWidth)
  const bar = '█'.repeat(filled) + '░'.repeat(barWidth - filled)
  const rate = doneBytes / Math.max(0.001, seconds)
  const left = rate > 0 ? duration(Math.ceil((totalBytes - doneBytes) / rate)) : '?'
  return `${bar} ${Math.floor(share * 100)}%  ${bytes(doneBytes)} of ${bytes(totalBytes)}  ${bytes(rate)}/s  ${left} left`
}
