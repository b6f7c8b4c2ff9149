/**
 * A queue of items with sizes. Finding the first item that fits a limit, adding, resizing and removing take O(log n).
 * The sizes are the leaves of a tree; each inner node holds the smallest size below it.
 *
 *               2                   first(3): the left half has no size up to 3, so it is the first such one of the right half
 *          ┌────┴────┐
 *          5         2
 *        ┌─┴─┐     ┌─┴─┐
 *        9   5     ∞   2            ∞: removed, or a slot that is not used yet
 */
const noSize = Number.POSITIVE_INFINITY
const fewestSlots = 8

export class FirstFit<Item> {
  readonly #slots = new Map<Item, number>()
  #items: (Item | undefined)[] = []
  /** Node 1 is the root; the children of node n are 2n and 2n + 1; the leaves are the second half. */
  #smallest: number[] = []
  #used = 0

  constructor() {
    this.#rebuild([])
  }

  get count(): number {
    return this.#slots.size
  }

  /** The smallest size in the queue; infinity when it is empty. */
  get smallestSize(): number {
    return this.#smallest[1]!
  }

  /** Adds an item at the end. The size must be finite and the item must not be in the queue. */
  push(item: Item, size: number): void {
    if (this.#used === this.#items.length) this.#rebuild([...this.#slots])
    const slot = this.#used
    this.#used += 1
    this.#slots.set(item, slot)
    this.#items[slot] = item
    this.#set(slot, size)
  }

  /** Changes the size of an item, which keeps its position. Returns false when the item is not in the queue. */
  resize(item: Item, size: number): boolean {
    const slot = this.#slots.get(item)
    if (slot !== undefined) this.#set(slot, size)
    return slot !== undefined
  }

  delete(item: Item): void {
    const slot = this.#slots.get(item)
    if (slot === undefined) return
    this.#slots.delete(item)
    this.#items[slot] = undefined
    this.#set(slot, noSize)
    if (this.#slots.size === 0) this.#rebuild([])
  }

  /** The first item whose size is at most `limit`; the first of all items without a limit. */
  first(limit = noSize): Item | undefined {
    const largest = Math.min(limit, Number.MAX_VALUE)
    if (this.smallestSize > largest) return undefined
    const leaves = this.#items.length
    let node = 1
    while (node < leaves) node = this.#smallest[2 * node]! <= largest ? 2 * node : 2 * node + 1
    return this.#items[node - leaves]
  }

  #set(slot: number, size: number): void {
    let node = this.#items.length + slot
    this.#smallest[node] = size
    for (node >>= 1; node > 0; node >>= 1) {
      this.#smallest[node] = Math.min(this.#smallest[2 * node]!, this.#smallest[2 * node + 1]!)
    }
  }

  /**
   * Builds the tree. Slots are never reused: when all are taken, the items move to the front of a tree at least twice as
   * large as their number.
   */
  #rebuild(entries: readonly (readonly [Item, number])[]): void {
    let leaves = fewestSlots
    while (leaves < 2 * entries.length) leaves *= 2
    const sizes = entries.map(([, slot]) => this.#smallest[this.#items.length + slot]!)
    this.#items = Array.from({ length: leaves }, (_, slot) => entries[slot]?.[0])
    this.#smallest = new Array<number>(2 * leaves).fill(noSize)
    for (const [slot, size] of sizes.entries()) this.#smallest[leaves + slot] = size
    for (let node = leaves - 1; node > 0; node -= 1) {
      this.#smallest[node] = Math.min(this.#smallest[2 * node]!, this.#smallest[2 * node + 1]!)
    }
    this.#slots.clear()
    for (const [slot, [item]] of entries.entries()) this.#slots.set(item, slot)
    this.#used = entries.length
  }
}
