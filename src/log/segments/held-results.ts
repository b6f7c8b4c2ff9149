/**
 * Results of frames that wait until their messages are in the replica as well (`replica.mode = "sync"`). The frames are
 * committed and fsynced, and lanes deliver them: only the responses to clients wait.
 *
 *   | the process ends …                      | on disk    | in the replica | the client                                    |
 *   |-----------------------------------------|------------|----------------|-----------------------------------------------|
 *   | while a result waits                    | the frame  | perhaps        | no response: at least once                    |
 *   | after `stored`, before the response     | the frame  | the frame      | no response: at least once                    |
 *   the replica does not answer in time        the frame    perhaps          503, `mayBeStored`; new frames are rejected unwritten
 */
import { sharedMs } from '../../platform/shared-clock.ts'

interface Held {
  seq: number
  sinceMs: number
  settle(isStored: boolean): void
}

/** The rules by which a buffer waits for its replica. Both are in ms; null: it does not wait. */
export interface ReplicaRules {
  /** A result waits until its messages are in the replica too, at most for so long. */
  timeoutMs: number | null
  /** Frames are rejected when the newest slot of this machine is older: a standby takes over then. */
  leaseMs: number | null
}

export class HeldResults {
  readonly #rules: ReplicaRules
  readonly #held: Held[] = []
  #storedSeq = 0
  #provenMs = Number.NEGATIVE_INFINITY
  #isLate = false

  constructor(rules: ReplicaRules) {
    this.#rules = rules
  }

  /**
   * True from a result that waited for too long until the replica has caught up, and while another machine can have taken
   * over.
   */
  get rejects(): boolean {
    const { leaseMs } = this.#rules
    return this.#isLate || (leaseMs !== null && sharedMs() - this.#provenMs > leaseMs)
  }

  /** `settle` is called once: true when everything up to `seq` is in the replica, false if that takes too long. */
  hold(seq: number, settle: Held['settle']): void {
    const isDone = this.#rules.timeoutMs === null || seq <= this.#storedSeq
    if (isDone && this.#held.length === 0) settle(true)
    else this.#held.push({ seq, sinceMs: performance.now(), settle })
  }

  /** Everything up to `seq` is in the replica. `provenMs`: when the last slot was sent, see `sharedMs`. */
  stored(seq: number, provenMs: number): void {
    this.#provenMs = provenMs
    this.#storedSeq = Math.max(this.#storedSeq, seq)
    while (this.#held[0] !== undefined && this.#held[0].seq <= this.#storedSeq)
      this.#held.shift()!.settle(true)
    if (this.#held.length === 0) this.#isLate = false
  }

  /** Call it again and again. */
  expire(): void {
    const before = performance.now() - (this.#rules.timeoutMs ?? 0)
    while (this.#held[0] !== undefined && this.#held[0].sinceMs < before) {
      this.#isLate = true
      this.#held.shift()!.settle(false)
    }
  }

  /** The process stops: the frames are on the disk, but not known to be in the replica. */
  end(): void {
    for (const { settle } of this.#held.splice(0)) settle(false)
  }
}
