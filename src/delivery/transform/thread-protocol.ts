/** The calls between delivery and a thread that applies transforms. */
import type { Transform } from '../../contract/transform.ts'

/** The lane whose time it is. */
export interface Turn {
  readonly workspaceId: string
  readonly destinationId: string
}

/** The result of a transform for a message. */
export interface TransformedBody {
  /** In the format of a stored body; null: as it was. */
  body: Uint8Array | null
  /** The position of each record in `body` among the records that were given; null: all of them. */
  places: number[] | null
  filtered: number
  /** Records that the transform cannot be applied to: they are not in `body`. */
  failed: FailedRecord[]
}
export interface FailedRecord {
  place: number
  code: string
  message: string
  /** The step that was applied to it then: 0 the filter, from 1 on the steps of the map. */
  step: number
}

/** A record at which the thread ended before: it is not tried again. */
export interface GivenUp extends FailedRecord {
  /** Its message's place in the job. */
  messageAt: number
}

export interface TransformThreadData {
  /** `boardWords`. */
  board: SharedArrayBuffer
  /** By the workspaces that are not slow. */
  isShared: boolean
}

export interface TransformJob extends Turn {
  id: number
  transform: Transform
  bodies: Uint8Array[]
  givenUp: GivenUp[]
  /**
   * The time that its workspace has cost already by threads that ended at its records: the others have that much
   * before it.
   */
  headStartMs: number
}

export interface TransformCalls {
  /** Null: it was cancelled. Rejects with ExceededError. */
  run(job: TransformJob): TransformedBody[] | null
  cancel(id: number): void
}

export interface TransformReports {
  /**
   * A record of the job took long, or its workspace takes more of the thread than others can spare. It continues
   * meanwhile.
   */
  slow(job: number, what: 'lane' | 'workspace'): void
}

const exceeded = {
  time: 'The transform takes too long for the record.',
  size: 'The transform makes the record more than four times as large.',
  records: 'Several records of the message take too long or too much memory.',
}

/** A job that takes too much as a whole: it can be sent in parts. */
export class ExceededError extends Error {
  readonly what: keyof typeof exceeded
  /** At this message of the job it had. */
  readonly messageAt: number

  constructor(what: keyof typeof exceeded, messageAt: number) {
    super(exceeded[what])
    this.name = 'ExceededError'
    this.what = what
    this.messageAt = messageAt
  }
}

/** Int32 words of the memory that both share: what the thread is at, seen also when it hangs or is gone. */
export const boardWords = { steps: 0, job: 1, message: 2, record: 3, step: 4, thread: 5, count: 6 } as const
