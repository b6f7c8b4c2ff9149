/**
 * Batches key queries of all threads of a node into few statements: queries that arrive during a statement join the next
 * one of their kind. So they share the cost of a commit, as in the buffer itself.
 */
import type { FoundKeys, KeyStore } from '../../log/key-store.ts'

/** The number of keys per statement. */
const maxKeys = 2_000

export function batchedKeys(store: KeyStore): KeyStore {
  const found = async (run: () => Promise<FoundKeys>, keyHashes: Iterable<string>): Promise<FoundKeys> => {
    const wanted = new Set(keyHashes)
    const { used, pending } = await run()
    const isWanted = ({ keyHash }: { keyHash: string }) => wanted.has(keyHash)
    return { used: used.filter(isWanted), pending: pending.filter(isWanted) }
  }
  const finds = new Batches((keyHashes: string[]) => store.find([...new Set(keyHashes)]))
  const claims = new Batches(store.claim)
  const settled = new Batches(store.settle)
  const released = new Batches(store.release)
  return {
    ...store,
    find: (keyHashes) => found(() => finds.add(keyHashes), keyHashes),
    claim: (given) =>
      found(
        () => claims.add(given),
        given.map(({ keyHash }) => keyHash),
      ),
    settle: (given) => settled.add(given),
    release: (given) => released.add(given),
  }
}

/** Every caller gets the result of the statement that contained its items. */
class Batches<Item, Result> {
  readonly #run: (items: Item[]) => Promise<Result>
  #waiting: { items: readonly Item[]; resolve(result: Result): void; reject(error: unknown): void }[] = []
  #isRunning = false

  constructor(run: (items: Item[]) => Promise<Result>) {
    this.#run = run
  }

  add(items: readonly Item[]): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      if (!this.#isRunning) void this.#runAll()
    })
  }

  async #runAll(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0) {
      let count = 0
      let keys = 0
      for (const { items } of this.#waiting) {
        if (count > 0 && keys + items.length > maxKeys) break
        keys += items.length
        count += 1
      }
      const batch = this.#waiting.splice(0, count)
      try {
        const result = await this.#run(batch.flatMap(({ items }) => [...items]))
        for (const { resolve } of batch) resolve(result)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isRunning = false
  }
}
