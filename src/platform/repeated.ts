/** Repeats work with a pause after each run, until it is closed. Runs never overlap, and the pauses keep no process alive. */
export class Repeated {
  readonly #pauseMs: () => number
  readonly #work: () => Promise<void>
  #timer: NodeJS.Timeout
  #running: Promise<void> = Promise.resolve()
  #isClosed = false

  /** Begins with a pause. `work` handles its own errors. */
  constructor(pauseMs: number | (() => number), work: () => Promise<void>) {
    this.#pauseMs = typeof pauseMs === 'number' ? () => pauseMs : pauseMs
    this.#work = work
    this.#timer = this.#later()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Resolves when a run in progress has ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #later(): NodeJS.Timeout {
    return setTimeout(() => {
      this.#running = this.#work().finally(() => {
        if (!this.#isClosed) this.#timer = this.#later()
      })
    }, this.#pauseMs()).unref()
  }
}
