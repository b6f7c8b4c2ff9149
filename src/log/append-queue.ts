/**
 * Queues appends that wait for a frame. Waiting workspaces get equal shares of the log's bytes, however much one of
 * them sends.
 *
 * The algorithm is self-clocked fair queueing. A message's mark is its size plus the mark of the message before it in
 * its workspace's queue, or, at the head of an empty queue, plus the mark that was served last. The lowest mark is
 * served next. So a small message overtakes large ones of other workspaces, and each other workspace overtakes a large
 * message with at most as many bytes as that message has.
 *
 *   a: |████████ 8│████████ 16│        served: b1 b2 b3 a8 a16; a `b` that arrives after a8
 *   b: |█ 1│█ 2│█ 3│                           has the mark 9 and is served before a16
 *
 * Within a workspace, and so within a pipe, the order is the order of arrival.
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
  /** By workspace. No queue in it is empty. */
  readonly #lines = new Map<string, Line<Item>>()
  /** By the mark of their heads. Of equal marks, the workspace that has waited longest comes first. */
  readonly #heads = new FirstFit<Line<Item>>()
  /** The mark of the item that was served last. */
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

  /** Returns the next item without removing it. */
  peek(): Item | undefined {
    return this.#next()?.waiting[0]?.item
  }

  /** Removes and returns the next item. */
  shift(): Item | undefined {
    const line = this.#next()
    const first = line?.waiting.shift()
    if (line === undefined || first === undefined) return undefined
    const [head] = line.waiting
    if (head === undefined) {
      this.#lines.delete(line.workspaceId)
      this.#heads.delete(line)
    } else this.#heads.resize(line, head.mark)
    // Marks restart at 0 when the queue is empty.
    this.#takenMark = this.isEmpty ? 0 : first.mark
    return first.item
  }

  #next(): Line<Item> | undefined {
    return this.#heads.first(this.#heads.smallestSize)
  }
}
