/**
 * Fair share of the buffer (docs/dev/contract.md#fair-share-of-the-buffer): above 80 % of `buffer.max_bytes`, a pipe that holds
 * more undelivered bytes than max_bytes divided by the number of pipes gets no more, then a workspace likewise. So a
 * pipe whose destination is away for days cannot keep out the others, which go on to 100 %.
 *
 * Every pipe that exists counts, idle ones too: it is for them that the space is kept. What is held is measured by the
 * writer now and then, and counted on from message to message in between.
 */
/**
 * The part of buffer.max_bytes from which shares count. Delivered messages that can be dropped do not count towards
 * it.
 */
export const pressedFrom = 0.8

export class FairShare {
  readonly #maxBytes: number
  #isPressed = false
  #pipes = new Map<string, number>()
  #workspaces = new Map<string, number>()
  #workspaceOf = new Map<string, string>()

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get isPressed(): boolean {
    return this.#isPressed
  }

  /** Nobody is kept back until the next measurement. */
  release(): void {
    this.#isPressed = false
  }

  /** `held`: undelivered bytes on disk, of every pipe that has messages. `workspaces`: of every pipe that exists. */
  measured(
    held: ReadonlyMap<string, number>,
    workspaces: Iterable<[pipeId: string, workspaceId: string]>,
  ): void {
    this.#isPressed = true
    this.#pipes = new Map(held)
    this.#workspaceOf = new Map(workspaces)
    this.#workspaces = new Map()
    for (const [pipeId, workspaceId] of this.#workspaceOf) {
      const bytes = held.get(pipeId) ?? 0
      this.#pipes.set(pipeId, bytes)
      this.#workspaces.set(workspaceId, (this.#workspaces.get(workspaceId) ?? 0) + bytes)
    }
  }

  /** False: the pipe, or its workspace, has had its share. True: the bytes are counted as held from now on. */
  take(pipeId: string, bytes: number): boolean {
    if (!this.#isPressed) return true
    const held = this.#pipes.get(pipeId) ?? 0
    this.#pipes.set(pipeId, held)
    if (held > this.#maxBytes / this.#pipes.size) return false
    const workspaceId = this.#workspaceOf.get(pipeId)
    // A pipe made since the last report: its workspace is known with the next one.
    if (workspaceId !== undefined) {
      const ofWorkspace = this.#workspaces.get(workspaceId) ?? 0
      if (ofWorkspace > this.#maxBytes / this.#workspaces.size) return false
      this.#workspaces.set(workspaceId, ofWorkspace + bytes)
    }
    this.#pipes.set(pipeId, held + bytes)
    return true
  }
}
