/**
 * Appends that wait for a frame, in a fair order: every workspace gets as many bytes of the log as every other one that
 * waits. What one of them sends, however much, keeps no other one waiting for more than it sends itself.
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
import { FirstFit } from '../platform/first-fit.ts'

interface Waiting<Item> {
  mark: number
  item: Item
}

interface Line<Item> {
  workspaceId: string
  waiting: Waiting<Item>[]
}

export class AppendQueue<Item> {
  /** By workspace; none is empty. */
  readonly #lines = new Map<string, Line<Item>>()
  /** By the mark of their heads. Of equal marks the one whose workspace has waited longer is first. */
  readonly #heads = new FirstFit<Line<Item>>()
  /** The mark of the item that was taken last. */
  #takenMark = 0

  get isEmpty(): boolean {
    return this.#lines.size === 0
  }

  push(workspaceId: string, bytes: number, item: Item): void {
    const line = this.#lines.get(workspaceId)
    if (line !== undefined) {
      line.waiting.push({ mark: line.waiting.at(-1)!.mark + bytes, item })
      return
    }
    const first = { mark: this.#takenMark + bytes, item }
    const begun = { workspaceId, waiting: [first] }
    this.#lines.set(workspaceId, begun)
    this.#heads.push(begun, first.mark)
  }

  /** The next one, which stays. */
  peek(): Item | undefined {
    return this.#next()?.waiting[0]?.item
  }

  /** The next one. */
  shift(): Item | undefined {
    const line = this.#next()
    const first = line?.waiting.shift()
    if (line === undefined || first === undefined) return undefined
    const [head] = line.waiting
    if (head === undefined) {
      this.#lines.delete(line.workspaceId)
      this.#heads.delete(line)
    } else this.#heads.resize(line, head.mark)
    // Marks count from 0 again whenever none waits.
    this.#takenMark = this.isEmpty ? 0 : first.mark
    return first.item
  }

  #next(): Line<Item> | undefined {
    return this.#heads.first(this.#heads.smallestSize)
  }
}
