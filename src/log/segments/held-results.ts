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
interface Held {
  seq: number
  sinceMs: number
  settle(isStored: boolean): void
}

export class HeldResults {
  readonly #timeoutMs: number
  readonly #held: Held[] = []
  #storedSeq = 0
  #isLate = false

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** True from a result that waited for too long until the replica has caught up. */
  get isLate(): boolean {
    return this.#isLate
  }

  /** `settle` is called once: true when everything up to `seq` is in the replica, false if that takes too long. */
  hold(seq: number, settle: Held['settle']): void {
    if (seq <= this.#storedSeq && this.#held.length === 0) settle(true)
    else this.#held.push({ seq, sinceMs: performance.now(), settle })
  }

  /** Everything up to `seq` is in the replica. */
  stored(seq: number): void {
    this.#storedSeq = Math.max(this.#storedSeq, seq)
    while (this.#held[0] !== undefined && this.#held[0].seq <= this.#storedSeq) this.#held.shift()!.settle(true)
    if (this.#held.length === 0) this.#isLate = false
  }

  /** Call it again and again. */
  expire(): void {
    const before = performance.now() - this.#timeoutMs
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
