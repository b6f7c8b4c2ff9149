/**
 * Queues requests to a lane (skip, retry-now, rewind, a pull, …) as commands. The lane's own loop runs them one after
 * the other, so that only the loop changes the lane's state.
 *
 *   open ──post──▶ queued ──runNext──▶ run: the caller gets the result; an error goes to the caller and to the loop
 *    ├──close──▶ closed: queued and later commands resolve with their `late` value
 *    ├──drain──▶ closed for new commands: queued ones are run
 *    └──fail───▶ failed: the same, but rejects: the lane has ended on an error
 *
 * A lane that cannot save (a full disk) runs no command until it can. Callers do not wait that long: a command that was
 * not started in time is withdrawn, so that a repeated request does not run it twice. A started command continues
 * without its caller.
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

  /** `onPost` is called when a command is waiting. */
  constructor(clock: Clock, onPost: () => void) {
    this.#clock = clock
    this.#onPost = onPost
  }

  get isEmpty(): boolean {
    return this.#commands.length === 0
  }

  /** `late` is the result when the lane ends before the command runs. */
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

  /** Runs the oldest command. Returns false when there is none. Rejects with the command's error. */
  async runNext(): Promise<boolean> {
    const command = this.#commands.shift()
    await command?.run()
    return command !== undefined
  }

  /** Runs the queued commands. Later ones are not run. */
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
