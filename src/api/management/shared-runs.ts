/**
 * Shares runs between callers. One run is in progress at a time; callers that arrive during it share the next one.
 * That run begins after their call, so it sees every change made before the call.
 */
export class SharedRuns<T> {
  readonly #running = new Map<string, Promise<T>>()
  readonly #next = new Map<string, Promise<T>>()

  /** Runs with different names are independent of each other. */
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
