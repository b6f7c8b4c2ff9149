/** The messages between delivery and a thread that applies transforms. */
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

export type ToTransformThread =
  | {
      kind: 'run'
      job: number
      workspaceId: string
      destinationId: string
      transform: Transform
      bodies: Uint8Array[]
      givenUp: GivenUp[]
      /**
       * The time that its workspace has cost already by threads that ended at its records: the others have that much
       * before it.
       */
      headStartMs: number
    }
  | { kind: 'cancel'; job: number }

export type FromTransformThread =
  | { kind: 'done'; job: number; results: TransformedBody[] }
  /** A record of the job took long, or its workspace takes more of the thread than others can spare. It goes on meanwhile. */
  | { kind: 'slow'; job: number; what: 'lane' | 'workspace' }
  /** At this message the job had taken too long, or become too large. */
  | { kind: 'exceeded'; job: number; what: 'time' | 'size'; messageAt: number }
  /** The transform does not compile here, although it was checked. */
  | { kind: 'failed'; job: number; message: string }

/** A job that takes too much as a whole: it may go in parts. */
export class ExceededError extends Error {
  readonly messageAt: number

  constructor(message: string, messageAt: number) {
    super(message)
    this.name = 'ExceededError'
    this.messageAt = messageAt
  }
}

/** Int32 words of the memory that both share: what the thread is at, seen also when it hangs or is gone. */
export const boardWords = { steps: 0, job: 1, message: 2, record: 3, step: 4, count: 5 } as const
