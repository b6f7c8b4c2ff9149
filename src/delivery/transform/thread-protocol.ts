/** The calls between delivery and a thread that applies transforms. */
import type { Transform } from '../../contract/transform.ts'

/** The lane and workspace that the used time is charged to. */
export interface Turn {
  readonly workspaceId: string
  readonly destinationId: string
}

/** The transformed body of one message. */
export interface TransformedBody {
  /** In the format of a stored body; null when it is unchanged. */
  body: Uint8Array | null
  /** The index, among the input records, of each record in `body`; null when all are kept. */
  places: number[] | null
  filtered: number
  /** Records that the transform cannot be applied to. They are not in `body`. */
  failed: FailedRecord[]
}
export interface FailedRecord {
  place: number
  code: string
  message: string
  /** The step in which it failed: 0 for the filter, from 1 on for the steps of the map. */
  step: number
}

/** A record that ended a thread before. It is not tried again. */
export interface GivenUp extends FailedRecord {
  /** Index of its message in the job. */
  messageAt: number
}

export interface TransformThreadData {
  /** See `boardWords`. */
  board: SharedArrayBuffer
  /** Shared by the workspaces that are not slow. */
  isShared: boolean
}

export interface TransformJob extends Turn {
  id: number
  transform: Transform
  bodies: Uint8Array[]
  givenUp: GivenUp[]
  /** Time that its workspace has cost by ending threads. The other workspaces get this much time first. */
  headStartMs: number
}

export interface TransformCalls {
  /** Null when it was cancelled. Rejects with ExceededError. */
  run(job: TransformJob): TransformedBody[] | null
  cancel(id: number): void
}

export interface TransformReports {
  /** A record of the job was slow, or its workspace uses too much of the thread. The job continues meanwhile. */
  slow(job: number, what: 'lane' | 'workspace'): void
}

const exceeded = {
  time: 'The transform takes too long for the record.',
  size: 'The transform makes the record more than four times as large.',
  records: 'Several records of the message take too long or too much memory.',
}

/** The job as a whole exceeds a limit; it can be sent in parts. */
export class ExceededError extends Error {
  readonly what: keyof typeof exceeded
  /** Index of the message at which it exceeded the limit. */
  readonly messageAt: number

  constructor(what: keyof typeof exceeded, messageAt: number) {
    super(exceeded[what])
    this.name = 'ExceededError'
    this.what = what
    this.messageAt = messageAt
  }
}

/** Int32 words of the shared memory: the thread's current position, readable even when the thread hangs or is gone. */
export const boardWords = { steps: 0, job: 1, message: 2, record: 3, step: 4, thread: 5, count: 6 } as const
