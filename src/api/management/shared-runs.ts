/**
 * Runs something for many who ask at once: one run at a time, and who asks while one is under way shares the next, which
 * begins after the question and so sees what was changed before it.
 */
export class SharedRuns<T> {
  readonly #running = new Map<string, Promise<T>>()
  readonly #next = new Map<string, Promise<T>>()

  /** Runs of different names know nothing of each other. */
  run(name: string, work: () => Promise<T>): Promise<T> {
    const next = this.#next.get(name)
    if (next !== undefined) return next
    const running = this.#running.get(name)
    if (running === undefined) return this.#start(name, work)
    const queued = running
      .catch(() => {})
      .then(() => {
        this.#next.delete(name)
        return this.#start(name, work)
      })
    this.#next.set(name, queued)
    return queued
  }

  #start(name: string, work: () => Promise<T>): Promise<T> {
    const run = work().finally(() => this.#running.delete(name))
    this.#running.set(name, run)
    return run
  }
}
