/**
 * Waits for a commit in a pipe. It subscribes to the feed only while a caller waits and shortly after, because each
 * subscriber costs the writer a copy of its messages.
 */
import type { BufferFeed } from '../../log/buffer.ts'

const lingerMs = 10_000

export interface CommitWait {
  /** True: there was a commit since `after` was called. False: the time is up. */
  wait(): Promise<boolean>
  cancel(): void
}

interface Waiting {
  pipeId: string
  isDone: boolean
  done(isCommitted: boolean): void
}

export class Commits {
  readonly #openFeed: () => Promise<BufferFeed>
  readonly #waiting = new Set<Waiting>()
  #feed: Promise<BufferFeed> | null = null
  #closing: NodeJS.Timeout | null = null
  #isEnded = false

  constructor(openFeed: () => Promise<BufferFeed>) {
    this.#openFeed = openFeed
  }

  /** Resolves when the subscription is active. */
  async after(pipeId: string, waitMs: number): Promise<CommitWait> {
    await this.#listen()
    let resolve: (isCommitted: boolean) => void = () => {}
    const settled = new Promise<boolean>((settle) => {
      resolve = settle
    })
    const timer = setTimeout(() => one.done(false), waitMs)
    const one: Waiting = {
      pipeId,
      isDone: false,
      done: (isCommitted) => {
        if (one.isDone) return
        one.isDone = true
        clearTimeout(timer)
        this.#waiting.delete(one)
        if (this.#waiting.size === 0) this.#closeLater()
        resolve(isCommitted)
      },
    }
    this.#waiting.add(one)
    if (this.#isEnded) one.done(false)
    return { wait: () => settled, cancel: () => one.done(false) }
  }

  end(): void {
    this.#isEnded = true
    for (const one of [...this.#waiting]) one.done(false)
    this.#close()
  }

  async #listen(): Promise<void> {
    if (this.#closing !== null) clearTimeout(this.#closing)
    this.#closing = null
    if (this.#isEnded) return
    const feed = this.#feed ?? this.#openListening()
    this.#feed = feed
    try {
      await feed
    } catch (error) {
      // The next waiting caller opens the feed again, because the buffer may respond by then.
      if (this.#feed === feed) this.#feed = null
      throw error
    }
  }

  async #openListening(): Promise<BufferFeed> {
    const feed = await this.#openFeed()
    feed.onCommitted((pipes) => {
      for (const [pipeId] of pipes)
        for (const one of [...this.#waiting]) if (one.pipeId === pipeId) one.done(true)
    })
    return feed
  }

  #closeLater(): void {
    this.#closing = setTimeout(() => this.#close(), lingerMs)
    this.#closing.unref()
  }

  #close(): void {
    this.#feed?.then(
      (feed) => feed.close(),
      // There is nothing to close. The waiting callers receive the error.
      () => {},
    )
    this.#feed = null
  }
}
