/**
 * Appends that wait for a frame, in a fair order: every workspace gets as many bytes of the log as every other one that
 * waits. What one of them sends, however much, keeps nobody else waiting for more than it sends itself.
 *
 * Self-clocked fair queueing. Each message has a mark: its bytes beyond the mark of the one before it in its workspace's
 * line, or, at the head of a line, beyond the mark that was taken last. The lowest mark is next, so a small message
 * overtakes large ones of others; a large one is overtaken by no more than its own size of each of them.
 *
 *   a: |████████ 8│████████ 16│        taken: b1 b2 b3 a8 a16, and a b that comes when a8 has been taken
 *   b: |█ 1│█ 2│█ 3│                           has the mark 9 and goes before a16
 *
 * Within a workspace, and so within a pipe, the order is that in which they came.
 */
interface Waiting<Item> {
  mark: number
  item: Item
}

export class AppendQueue<Item> {
  /** By workspace; none is empty. */
  readonly #lines = new Map<string, Waiting<Item>[]>()
  /** Of the one that was taken last. */
  #takenMark = 0

  get isEmpty(): boolean {
    return this.#lines.size === 0
  }

  push(workspaceId: string, bytes: number, item: Item): void {
    const line = this.#lines.get(workspaceId) ?? []
    const before = line.at(-1)?.mark ?? this.#takenMark
    line.push({ mark: before + bytes, item })
    this.#lines.set(workspaceId, line)
  }

  /** The next one, which stays. */
  peek(): Item | undefined {
    return this.#next()?.line[0]?.item
  }

  /** The next one. */
  shift(): Item | undefined {
    const next = this.#next()
    if (next === null) return undefined
    const { workspaceId, line } = next
    const first = line.shift()
    if (line.length === 0) this.#lines.delete(workspaceId)
    // Marks count from 0 again whenever nobody waits.
    this.#takenMark = this.isEmpty ? 0 : (first?.mark ?? 0)
    return first?.item
  }

  /** Of equal marks the one whose workspace has waited longer. */
  #next(): { workspaceId: string; line: Waiting<Item>[] } | null {
    let lowest = Number.POSITIVE_INFINITY
    let next: { workspaceId: string; line: Waiting<Item>[] } | null = null
    for (const [workspaceId, line] of this.#lines) {
      const mark = line[0]?.mark ?? lowest
      if (mark >= lowest) continue
      lowest = mark
      next = { workspaceId, line }
    }
    return next
  }
}
