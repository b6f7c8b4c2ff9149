/**
 * A queue in a directory, for Node.js. It survives the end of the process.
 *
 *   DIRECTORY/<hash of the ingest URL>/<client>/alive     host and pid; touched every ten seconds
 *                                              <batch>   the body without its closing bracket, so that records can be appended
 *
 * Each client has a folder of its own. The folder of a client that has ended is moved into the folder of the next
 * client that sees it, which then sends its batches. The move is atomic: one client gets the folder. If its owner was
 * only stopped for a minute, the owner finds no file to append to, begins a new batch, and both send the same bytes
 * under the same Idempotency-Key.
 *
 * | a crash                                | afterwards                                                        |
 * |----------------------------------------|-------------------------------------------------------------------|
 * | while a record is appended             | `send` has not returned: the incomplete record is removed          |
 * | before a batch is sent                 | the next client sends it                                          |
 * | between the request and `removeItem`   | the next client sends the same bytes under the same key            |
 * | while a folder is moved or read        | it is in the folder of the crashed client, and moved along with it |
 * | power failure                          | a batch that was sent is complete, because `sync` came first       |
 */
import { createHash, randomUUID } from 'node:crypto'
import {
  appendFileSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'
import type { BatchStore } from './queue.ts'

const touchMs = 10_000
/** A client that did not touch its folder for so long has ended. */
const abandonedMs = 60_000
const batchName = /^[a-z\d]+-\d+$/

/** `wake` is called when batches of another client were found. Never throws: without the directory, the queue is in memory. */
export function openDirectory(directory: string, prefix: string, wake: () => void): BatchStore {
  return new Directory(directory, prefix, wake)
}

class Directory implements BatchStore {
  readonly #shared: string
  readonly #own: string
  readonly #prefix: string
  readonly #items = new Map<string, string>()
  /** The file of each item. */
  readonly #files = new Map<string, string>()
  readonly #sizes = new Map<string, number>()
  readonly #timer: NodeJS.Timeout

  constructor(directory: string, prefix: string, wake: () => void) {
    const address = createHash('sha256').update(prefix).digest('hex').slice(0, 16)
    this.#shared = path.resolve(directory, address)
    this.#own = path.join(this.#shared, randomUUID())
    this.#prefix = prefix
    this.#keepAlive()
    this.#adoptAll()
    this.#timer = setInterval(() => {
      this.#keepAlive()
      if (this.#adoptAll()) wake()
    }, touchMs).unref()
  }

  keys(): string[] {
    return [...this.#items.keys()]
  }

  getItem(name: string): string | null {
    return this.#items.get(name) ?? null
  }

  /** The body of a batch in a file is complete: only its time changes, which is not stored. */
  setItem(name: string, item: string): void {
    if (!this.#files.has(name)) {
      const text = item.replace(/^-?\d+/, '').slice(0, -1)
      const file = path.join(this.#own, name.slice(this.#prefix.length))
      writeNew(file, text)
      this.#files.set(name, file)
      this.#sizes.set(name, Buffer.byteLength(text))
    }
    this.#items.set(name, item)
  }

  append(name: string, text: string): void {
    const file = this.#files.get(name) ?? ''
    const size = this.#sizes.get(name) ?? 0
    const added = `,\n${text}`
    try {
      // By name, and never creating it: the folder can belong to another client by now.
      const handle = openSync(file, constants.O_WRONLY | constants.O_APPEND)
      try {
        appendFileSync(handle, added)
      } finally {
        closeSync(handle)
      }
    } catch (error) {
      attempt(() => truncateSync(file, size))
      throw error
    }
    this.#sizes.set(name, size + Buffer.byteLength(added))
  }

  removeItem(name: string): void {
    attempt(() => unlinkSync(this.#files.get(name) ?? ''))
    for (const map of [this.#items, this.#files, this.#sizes]) map.delete(name)
  }

  async sync(name: string): Promise<void> {
    const file = this.#files.get(name)
    if (file === undefined) return
    for (const one of [file, path.dirname(file)]) {
      const handle = await open(one).catch(() => null)
      await handle?.sync().catch(() => {})
      await handle?.close().catch(() => {})
    }
  }

  close(): void {
    clearInterval(this.#timer)
    attempt(() => rmSync(path.join(this.#own, 'alive'), { force: true }))
    if (this.#items.size === 0) attempt(() => rmSync(this.#own, { recursive: true, force: true }))
  }

  #keepAlive(): void {
    const alive = path.join(this.#own, 'alive')
    const now = new Date()
    if (attempt(() => utimesSync(alive, now, now))) return
    // A folder without the file looks abandoned: it gets its name when it has one.
    const unnamed = path.join(this.#shared, `.${randomUUID()}`)
    attempt(() => {
      mkdirSync(unnamed, { recursive: true })
      writeFileSync(path.join(unnamed, 'alive'), `${hostname()} ${process.pid}`)
      renameSync(unnamed, this.#own)
    })
  }

  /** Returns whether there were batches of others. */
  #adoptAll(): boolean {
    let count = 0
    attempt(() => {
      for (const name of readdirSync(this.#shared)) {
        const folder = path.join(this.#shared, name)
        if (name.startsWith('.') || folder === this.#own || !isAbandoned(folder)) continue
        attempt(() => {
          const adopted = path.join(this.#own, name)
          renameSync(folder, adopted)
          count += this.#load(adopted)
        })
      }
    })
    return count > 0
  }

  /** The files of an adopted folder move into the own one: folders would nest with each restart. */
  #load(folder: string): number {
    let count = 0
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      const id = path.basename(name)
      const from = path.join(folder, name)
      if (!batchName.test(id) || !statSync(from).isFile()) continue
      const texts = readFileSync(from, 'utf8').slice(1).split(',\n').filter(isJson)
      if (texts.length === 0) continue
      const file = path.join(this.#own, id)
      renameSync(from, file)
      this.#items.set(this.#prefix + id, `0[${texts.join(',\n')}]`)
      this.#files.set(this.#prefix + id, file)
      count++
    }
    rmSync(folder, { recursive: true, force: true })
    return count
  }
}

/** Whether the client of a folder has ended. */
function isAbandoned(folder: string): boolean {
  try {
    const alive = path.join(folder, 'alive')
    const { mtimeMs } = statSync(alive)
    if (Date.now() - mtimeMs > abandonedMs) return true
    const [host, pid] = readFileSync(alive, 'utf8').split(' ')
    if (host !== hostname()) return false
    // In a container each run can have the same pid.
    if (Number(pid) === process.pid) return mtimeMs < Date.now() - process.uptime() * 1000
    return !isRunning(Number(pid))
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ENOENT'
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** The file does not exist, or is complete. */
function writeNew(file: string, text: string): void {
  try {
    writeFileSync(file, text)
  } catch (error) {
    attempt(() => unlinkSync(file))
    throw error
  }
}

function isJson(text: string): boolean {
  return attempt(() => JSON.parse(text))
}

/** Returns whether it did not throw. */
function attempt(action: () => unknown): boolean {
  try {
    action()
    return true
  } catch {
    return false
  }
}
