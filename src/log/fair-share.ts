/**
 * Fair share of the buffer (docs/dev/contract.md#fair-share-of-the-buffer): above 80 % of `buffer.max_bytes`, a pipe
 * that holds more undelivered bytes than max_bytes divided by the number of pipes gets no more space; the same rule
 * applies to workspaces. So a pipe whose destination is down for days cannot block the others, which can use the space
 * up to 100 %.
 *
 * Idle pipes count as well, because the space is reserved for them. The writer measures usage periodically and adds
 * each message in between.
 */
/** Shares apply above this part of buffer.max_bytes. Delivered messages that can be dropped do not count towards it. */
export const pressedFrom = 0.8

/** One measurement, and what was added since. Nothing is limited while there is none. */
export class FairShare {
  readonly #maxBytes: number
  readonly #pipes: Map<string, number>
  readonly #workspaces = new Map<string, number>()
  readonly #workspaceOf: ReadonlyMap<string, string>

  /** `held`: undelivered bytes on disk per pipe with messages. `workspaces`: the workspace of every existing pipe. */
  constructor(
    maxBytes: number,
    held: ReadonlyMap<string, number>,
    workspaces: Iterable<[pipeId: string, workspaceId: string]>,
  ) {
    this.#maxBytes = maxBytes
    this.#pipes = new Map(held)
    this.#workspaceOf = new Map(workspaces)
    for (const [pipeId, workspaceId] of this.#workspaceOf) {
      const bytes = held.get(pipeId) ?? 0
      this.#pipes.set(pipeId, bytes)
      this.#workspaces.set(workspaceId, (this.#workspaces.get(workspaceId) ?? 0) + bytes)
    }
  }

  /** Counts the bytes as held and returns true, or returns false when the pipe or its workspace has used up its share. */
  take(pipeId: string, bytes: number): boolean {
    const held = this.#pipes.get(pipeId) ?? 0
    this.#pipes.set(pipeId, held)
    if (held > this.#maxBytes / this.#pipes.size) return false
    const workspaceId = this.#workspaceOf.get(pipeId)
    // The workspace of a pipe that was created since the last report is not known yet.
    if (workspaceId !== undefined) {
      const ofWorkspace = this.#workspaces.get(workspaceId) ?? 0
      if (ofWorkspace > this.#maxBytes / this.#workspaces.size) return false
      this.#workspaces.set(workspaceId, ofWorkspace + bytes)
    }
    this.#pipes.set(pipeId, held + bytes)
    return true
  }
}
