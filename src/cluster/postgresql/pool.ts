/**
 * The connections of one thread. They are opened on demand and kept while alive; when all are in use, callers queue. A
 * dead session is not used again; nothing is retried here.
 */
import { endsWithin } from '../../platform/deadline.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import type { Session } from './session.ts'

/** How long a caller waits for a connection, the same as SQLite's wait for a locked file. */
const waitMs = 10_000
/** Used twice; below the deadline of the step in shutdown-steps.ts. */
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

  /** Rejects with the pg client's error, or with StorageUnavailableError when all stay in use. */
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

  /** A dead session is closed. */
  release(session: Session): void {
    if (session.isDead || !this.#current.has(session)) this.#end(session)
    else this.#idle.push(session)
    this.#free()
  }

  /** Retires all open sessions, because the server no longer accepts writes. */
  renew(): void {
    this.#current = new Set()
    for (const session of this.#idle.splice(0)) void session.close()
  }

  /** Resolves when every connection is closed, or the time is over. The remaining ones then count as lost connections. */
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
