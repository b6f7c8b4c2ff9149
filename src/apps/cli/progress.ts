/**
 * The progress line of long operations, only on a terminal. It is redrawn at most ten times a second and removed at
 * the end.
 */
import { bytes, count, duration } from '../../platform/quantities.ts'
import { io } from './io.ts'

const redrawMs = 100
const barWidth = 24

interface ProgressLine {
  /** Calls `line` only if it is drawn. `isLast` always draws. */
  draw(line: () => string, isLast?: boolean): void
  /** Writes a line above the progress line, or to stderr without a terminal. */
  note(text: string): void
  end(): void
}

function openLine(): ProgressLine {
  const { stderr } = io()
  if (stderr.isTTY !== true)
    return { draw: () => {}, note: (text) => stderr.write(`${text}\n`), end: () => {} }
  let drawnMs = 0
  let shown = ''
  const redraw = () => stderr.write(`\r\x1b[K${shown.slice(0, (stderr.columns ?? 80) - 1)}`)
  return {
    draw(line, isLast = false) {
      const now = Date.now()
      if (now - drawnMs < redrawMs && !isLast) return
      drawnMs = now
      shown = line()
      redraw()
    },
    note(text) {
      stderr.write(`\r\x1b[K${text}\n`)
      redraw()
    },
    end: () => stderr.write('\r\x1b[K'),
  }
}

/** `Replayed 120 of 500`. */
export function openCountProgress(verb: string, total: number) {
  const { draw, end } = openLine()
  return { update: (done: number) => draw(() => `${verb} ${count(done)} of ${count(total)}`), end }
}

/** Any text. */
export function openTextProgress() {
  const { draw, end } = openLine()
  return { update: (text: string) => draw(() => text), end }
}

/** Shows the progress of `work`, which reports bytes: bar, percentage, rate, remaining time. */
export async function withByteProgress<T>(
  work: (onProgress: (doneBytes: number, totalBytes: number) => void) => Promise<T>,
): Promise<T> {
  const { draw, end } = openLine()
  const startedMs = Date.now()
  const seconds = () => (Date.now() - startedMs) / 1000
  return await work((done, total) => draw(() => byteProgressLine(done, total, seconds()))).finally(end)
}

export function byteProgressLine(doneBytes: number, totalBytes: number, seconds: number): string {
  const rate = doneBytes / Math.max(0.001, seconds)
  const size = `${bytes(doneBytes)} of ${bytes(totalBytes)}  ${bytes(rate)}/s`
  return `${bar(doneBytes, totalBytes)}  ${size}  ${timeLeft(totalBytes - doneBytes, rate)}`
}

export interface IngestProgress {
  /** The progress: stored bytes of the current source, and number of sent records of all. */
  update(doneBytes: number, records: number): void
  /** The current source is complete, or was sent by an earlier run. */
  sourceDone(bytes: number): void
  note(text: string): void
  end(): void
}

/** `totalBytes` null: the size of the input is not known. */
export function openIngestProgress(totalBytes: number | null): IngestProgress {
  const { draw, note, end } = openLine()
  const startedMs = Date.now()
  let bytesBefore = 0
  let first: { bytes: number; records: number } | null = null
  return {
    update(doneBytes, records) {
      const done = bytesBefore + doneBytes
      first ??= { bytes: done, records }
      const sent = { bytes: done - first.bytes, records: records - first.records }
      const line = () => {
        const seconds = Math.max(0.001, (Date.now() - startedMs) / 1000)
        const rate = { recordsPerSecond: sent.records / seconds, bytesPerSecond: sent.bytes / seconds }
        return ingestProgressLine(totalBytes, done, records, rate)
      }
      draw(line, done === totalBytes)
    },
    sourceDone(bytes) {
      bytesBefore += bytes
    },
    note,
    end,
  }
}

export function ingestProgressLine(
  totalBytes: number | null,
  doneBytes: number,
  records: number,
  rate: { recordsPerSecond: number; bytesPerSecond: number },
): string {
  const speed = `${count(records)} records  ${count(rate.recordsPerSecond)}/s`
  if (totalBytes === null || totalBytes === 0) return `${bytes(doneBytes)}  ${speed}`
  return `${bar(doneBytes, totalBytes)}  ${speed}  ${timeLeft(totalBytes - doneBytes, rate.bytesPerSecond)}`
}

function bar(doneBytes: number, totalBytes: number): string {
  const share = totalBytes === 0 ? 1 : Math.min(1, doneBytes / totalBytes)
  const filled = Math.round(share * barWidth)
  return `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${Math.floor(share * 100)}%`
}

function timeLeft(leftBytes: number, bytesPerSecond: number): string {
  return `${bytesPerSecond > 0 ? duration(Math.ceil(leftBytes / bytesPerSecond)) : '?'} left`
}
