/**
 * The requests to a lane from outside (skip, retry-now, rewind, a pull, …): commands, run one after the other by the
 * lane's own loop, so that only the loop ever changes the lane's state.
 *
 *   open ──post──▶ queued ──runNext──▶ run: the caller gets the result; an error is the caller's and the loop's
 *    ├──close──▶ closed: what is still queued, and what is posted later, resolves with its `late` value
 *    ├──drain──▶ closed for new ones: what is still queued is run
 *    └──fail───▶ failed: the same, but rejects: the lane has ended on an error
 *
 * A lane that cannot save (a full disk) runs no command until it can. Who asks from outside does not wait for that: a
 * command that was not begun in time is withdrawn, so that asking again does not run it twice; one that was begun goes
 * on by itself.
 */
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { Clock } from './clock.ts'

type Ending = 'late' | { error: unknown }

/** How long the caller of `ask` waits. */
const commandDeadlineMs = 10_000

interface Command {
  run(): Promise<void>
  end(how: Ending): void
}

export class Mailbox {
  readonly #commands: Command[] = []
  readonly #clock: Clock
  readonly #onPost: () => void
  #ending: Ending | null = null

  /** `onPost`: a command is waiting. */
  constructor(clock: Clock, onPost: () => void) {
    this.#clock = clock
    this.#onPost = onPost
  }

  get isEmpty(): boolean {
    return this.#commands.length === 0
  }

  /** `late`: the result when the lane has ended before the command was run. */
  post<T>(late: T, run: () => Promise<T>): Promise<T> {
    return this.#post(late, run).done
  }

  /** Rejects with StorageUnavailableError when the command has not ended in time. */
  async ask<T>(late: T, run: () => Promise<T>): Promise<T> {
    const { command, done } = this.#post(late, run)
    let cancel = () => {}
    const overdue = new Promise<never>((_, reject) => {
      cancel = this.#clock.wake(commandDeadlineMs, () => {
        const at = this.#commands.indexOf(command)
        if (at >= 0) this.#commands.splice(at, 1)
        reject(new StorageUnavailableError('the state of the lane could not be saved in time'))
      })
    })
    try {
      return await Promise.race([done, overdue])
    } finally {
      cancel()
    }
  }

  #post<T>(late: T, run: () => Promise<T>): { command: Command; done: Promise<T> } {
    const { promise, resolve, reject } = withResolvers<T>()
    const end = (how: Ending) => (how === 'late' ? resolve(late) : reject(how.error))
    const runAndReport = async () => {
      try {
        resolve(await run())
      } catch (error) {
        reject(error)
        throw error
      }
    }
    const command = { run: runAndReport, end }
    if (this.#ending !== null) end(this.#ending)
    else {
      this.#commands.push(command)
      this.#onPost()
    }
    return { command, done: promise }
  }

  /** Runs the oldest command. False: there was none. Rejects with the command's error. */
  async runNext(): Promise<boolean> {
    const command = this.#commands.shift()
    await command?.run()
    return command !== undefined
  }

  /** Runs what is queued, and nothing that is posted from now on. */
  async drain(): Promise<void> {
    this.#ending ??= 'late'
    while (await this.runNext()) {}
  }

  close(): void {
    this.#end('late')
  }

  fail(error: unknown): void {
    this.#end({ error })
  }

  #end(how: Ending): void {
    this.#ending ??= how
    for (const command of this.#commands.splice(0)) command.end(how)
  }
}

function withResolvers<T>() {
  let resolve: (value: T) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
