/** A thread that checks segments one after another: it is sent names and answers with what it found. */
import { parentPort, workerData } from 'node:worker_threads'
import { checkSegment, type SegmentCheck } from './check-segment.ts'
import type { SegmentName } from './layout.ts'
import { isGone } from './sqlite-errors.ts'

export type FromChecker =
  | { kind: 'progress'; bytes: number }
  /** Null: the segment is gone. */
  | { kind: 'checked'; check: SegmentCheck | null }

function run(port: NonNullable<typeof parentPort>, { dir }: { dir: string }): void {
  const post = (message: FromChecker) => port.postMessage(message)
  port.on('message', (name: SegmentName) => {
    post({ kind: 'checked', check: checkIfThere(dir, name, (bytes) => post({ kind: 'progress', bytes })) })
  })
}

function checkIfThere(
  dir: string,
  name: SegmentName,
  onProgress: (bytes: number) => void,
): SegmentCheck | null {
  try {
    return checkSegment(dir, name, onProgress)
  } catch (error) {
    if (!isGone(error)) throw error
    return null
  }
}

if (parentPort !== null) run(parentPort, workerData as { dir: string })
