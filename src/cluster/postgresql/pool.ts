/**
 * The few connections of one thread. Each is opened when it is needed, kept while it is alive, and whoever finds all of
 * them in use waits in line. A session that has died is not used again; nothing is retried here.
 */
import { endsWithin } from '../../platform/deadline.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import type { Session } from './session.ts'

/** How long somebody waits for a connection: what SQLite gives a locked file. */
const waitMs = 10_000
/** Twice, below the deadline of the step in shutdown-steps.ts. */
const closeMs = 700

type Waiting = (session: Promise<Session>) => void

export class SessionPool {
  readonly #open: () => Promise<Session>
  readonly #most: number
  readonly #idle: Session[] = []
  readonly #waiting: Waiting[] = []
  #current = new Set<Session>()
  #used = 0
  #onEmpty: (() => void) | null = null

  constructor(open: () => Promise<Session>, most: number) {
    this.#open = open
    this.#most = most
  }

  /** Rejects with the pg client's error, or StorageUnavailableError when all stay in use. */
  acquire(): Promise<Session> {
    if (this.#used < this.#most) return this.#take()
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(new StorageUnavailableError(`metadata: no connection was free for ${waitMs / 1000} s`))
      }, waitMs)
      const waiting: Waiting = (session) => {
        clearTimeout(timer)
        resolve(session)
      }
      this.#waiting.push(waiting)
    })
  }

  /** A dead one is closed. */
  release(session: Session): void {
    if (session.isDead || !this.#current.has(session)) this.#end(session)
    else this.#idle.push(session)
    this.#free()
  }

  /** All that are open now are not used again: the server has become one that takes no writes. */
  renew(): void {
    this.#current = new Set()
    for (const session of this.#idle.splice(0)) void session.close()
  }

  /** Resolves when every connection is closed. What has not ended by then is not waited for: it is as after a lost connection. */
  async close(): Promise<void> {
    if (this.#used > 0) {
      const isEmpty = await endsWithin(closeMs, new Promise<void>((resolve) => (this.#onEmpty = resolve)))
      if (!isEmpty) for (const session of this.#current) session.destroy()
    }
    await endsWithin(closeMs, Promise.all(this.#idle.splice(0).map((session) => session.close())))
  }

  async #take(): Promise<Session> {
    this.#used += 1
    for (let session = this.#idle.pop(); session !== undefined; session = this.#idle.pop()) {
      if (!session.isDead) return session
      this.#end(session)
    }
    try {
      const session = await this.#open()
      this.#current.add(session)
      return session
    } catch (error) {
      this.#free()
      throw error
    }
  }

  #end(session: Session): void {
    this.#current.delete(session)
    void session.close()
  }

  #free(): void {
    this.#used -= 1
    this.#waiting.shift()?.(this.#take())
    if (this.#used === 0) this.#onEmpty?.()
  }
}
