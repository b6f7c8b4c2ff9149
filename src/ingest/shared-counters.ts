/**
 * The counters of ingest limits, in memory shared by all ingest threads, so that N threads together accept no more than
 * one thread would. Quotas (admission.ts) and the memory of bodies, at the end of this file, are counted in them.
 *
 *   head     0  i32 lock   4  i32 entries made   8  f64 body bytes of all   16  f64 workspaces that hold body bytes
 *           24  i32 the first entry that was released
 *   buckets     i32 each: the first entry whose id falls there, 0: none
 *   entry    0  i32 lock   4  i32 next entry of its bucket   8  the id, 16 bytes of its SHA-256   24  thirteen f64
 *
 * Entries never move: each thread caches their positions and needs no lock to find them again. Main releases the entry
 * of a deleted pipe, and the next new pipe uses it. A request of the deleted pipe that is still under way in another
 * thread keeps using the entry; it takes at most the amount that it later returns. The system allocates only memory
 * that is written.
 *
 * A lock is held for about ten instructions, none of which waits, throws or calls other code. A thread that is
 * terminated in between leaves it locked, but then the process ends as well.
 *
 * The first eleven numbers of an entry are the use of a pipe's limits: the bucket of its rate and the sums of the last
 * three UTC days. They are read and written under the entry's lock.
 *
 *   0 tokens   1 refilled, ms (0: never limited so far)   2…10 three days: start ms, records, bytes; latest used first
 */
import { createHash } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import { newMsgId } from './msg-ids.ts'

const headBytes = 32
const buckets = 16_384
const entryBytes = 128
/** The limit of pipes and workspaces together. */
const maxEntries = 131_072
const idAt = 8
/** Index, in f64, of an entry's first number. */
export const entryHead = 3
/** The last two numbers, used by the memory of bodies. All before them belong to the quota. */
const bodyBytesAt = entryHead + 11
const bodyPipesAt = entryHead + 12
/** Index in i32. */
const releasedAt = 6

const free = 0
const held = 1
const heldAndWanted = 2

export class SharedCounters {
  /** Can be sent to other threads. */
  readonly memory: SharedArrayBuffer
  /** The whole memory as numbers: those of an entry start at `entry + entryHead`. */
  readonly numbers: Float64Array
  readonly #ints: Int32Array
  readonly #bytes: Buffer
  readonly #known = new Map<string, number>()

  /** Without `memory`, creates new counters, all zero. */
  constructor(memory = new SharedArrayBuffer(headBytes + buckets * 4 + maxEntries * entryBytes)) {
    this.memory = memory
    this.numbers = new Float64Array(memory)
    this.#ints = new Int32Array(memory)
    this.#bytes = Buffer.from(memory)
  }

  /**
   * Index of this id's entry in `numbers`; the entry is created when missing. Throws StorageUnavailableError when all
   * are in use.
   */
  entry(id: string): number {
    let entry = this.#known.get(id)
    if (entry === undefined) {
      const hash = hashOf(id)
      entry = this.locked(headEntry, () => this.#findOrMake(hash))
      if (entry < 0) throw new StorageUnavailableError(`more than ${maxEntries} pipes and workspaces`)
      this.#known.set(id, entry)
    }
    return entry
  }

  /** Runs `action` under the entry's lock. It must not throw, wait or look up an entry. */
  locked<Result>(entry: number, action: () => Result): Result {
    const ints = this.#ints
    const at = entry * 2
    if (Atomics.compareExchange(ints, at, free, held) !== free) {
      while (Atomics.exchange(ints, at, heldAndWanted) !== free) Atomics.wait(ints, at, heldAndWanted, 1)
    }
    const result = action()
    if (Atomics.exchange(ints, at, free) === heldAndWanted) Atomics.notify(ints, at, 1)
    return result
  }

  /** Removes a deleted pipe from this thread's cache. */
  forget(id: string): void {
    this.#known.delete(id)
  }

  /** Releases the entry of a deleted pipe, once for all threads. */
  giveUp(id: string): void {
    this.forget(id)
    const ints = this.#ints
    const hash = hashOf(id)
    this.locked(headEntry, () => {
      // The index of the entry is stored in its bucket, or in the entry before it.
      for (let at = bucketOf(hash); ints[at] !== 0; at = ints[at]! * 2 + 1) {
        const entry = ints[at]!
        if (!this.#isOf(entry, hash)) continue
        ints[at] = ints[entry * 2 + 1]!
        ints[entry * 2 + 1] = ints[releasedAt]!
        ints[releasedAt] = entry
        return
      }
    })
  }

  #findOrMake(hash: Buffer): number {
    const ints = this.#ints
    const bucket = bucketOf(hash)
    for (let entry = ints[bucket]!; entry !== 0; entry = ints[entry * 2 + 1]!)
      if (this.#isOf(entry, hash)) return entry
    const entry = this.#takeFree()
    if (entry < 0) return entry
    this.#bytes.set(hash, entry * 8 + idAt)
    ints[entry * 2 + 1] = ints[bucket]!
    ints[bucket] = entry
    return entry
  }

  #takeFree(): number {
    const ints = this.#ints
    const givenUp = ints[releasedAt]!
    if (givenUp !== 0) {
      ints[releasedAt] = ints[givenUp * 2 + 1]!
      // Body bytes stay, because their holders still release them here.
      this.numbers.fill(0, givenUp + entryHead, givenUp + bodyBytesAt)
      return givenUp
    }
    const made = ints[1]!
    if (made >= maxEntries) return -1
    ints[1] = made + 1
    return (headBytes + buckets * 4 + made * entryBytes) / 8
  }

  #isOf(entry: number, hash: Buffer): boolean {
    const at = entry * 8 + idAt
    return hash.equals(this.#bytes.subarray(at, at + hash.length))
  }
}

/** The head's lock and numbers. */
const headEntry = 0

function hashOf(id: string): Buffer {
  return createHash('sha256').update(id).digest().subarray(0, 16)
}

/** Index in i32. */
function bucketOf(hash: Buffer): number {
  return headBytes / 4 + (hash.readUInt32LE(0) % buckets)
}

/** Today, a day of a wrong clock, and one more. */
const daysKept = 3
const dayNumbers = 3
const daysAt = 2

export interface DaySums {
  records: number
  bytes: number
}

export class QuotaState {
  readonly #numbers: Float64Array
  readonly #at: number

  constructor(counters: SharedCounters, entry: number) {
    this.#numbers = counters.numbers
    this.#at = entry + entryHead
  }

  get tokens(): number {
    return this.#numbers[this.#at]!
  }

  set tokens(tokens: number) {
    this.#numbers[this.#at] = tokens
  }

  get refilledMs(): number {
    return this.#numbers[this.#at + 1]!
  }

  set refilledMs(ms: number) {
    this.#numbers[this.#at + 1] = ms
  }

  /** False until the pipe is first limited; until then its bucket is full. */
  get hasBucket(): boolean {
    return this.refilledMs !== 0
  }

  /** The sums of the day that starts at `startMs`, which becomes the most recently used. */
  day(startMs: number): DaySums {
    let index = this.#indexOf(startMs)
    if (index < 0) {
      index = daysKept - 1
      this.#setDay(index, startMs, 0, 0)
    }
    if (index > 0) this.#moveToFront(index)
    return this.#sums(0)
  }

  /** Adds to the sums of this day; ignored when the day is no longer kept. */
  add(startMs: number, { records, bytes }: DaySums, sign: 1 | -1): void {
    const index = this.#indexOf(startMs)
    if (index < 0) return
    const sums = this.#sums(index)
    this.#setDay(index, startMs, sums.records + sign * records, sums.bytes + sign * bytes)
  }

  #indexOf(startMs: number): number {
    for (let index = 0; index < daysKept; index++)
      if (this.#numbers[this.#dayAt(index)] === startMs) return index
    return -1
  }

  #dayAt(index: number): number {
    return this.#at + daysAt + index * dayNumbers
  }

  #sums(index: number): DaySums {
    const at = this.#dayAt(index)
    return { records: this.#numbers[at + 1]!, bytes: this.#numbers[at + 2]! }
  }

  #setDay(index: number, startMs: number, records: number, bytes: number): void {
    const at = this.#dayAt(index)
    this.#numbers[at] = startMs
    this.#numbers[at + 1] = records
    this.#numbers[at + 2] = bytes
  }

  #moveToFront(index: number): void {
    const startMs = this.#numbers[this.#dayAt(index)]!
    const { records, bytes } = this.#sums(index)
    const first = this.#dayAt(0)
    this.#numbers.copyWithin(first + dayNumbers, first, this.#dayAt(index))
    this.#setDay(0, startMs, records, bytes)
  }
}

/**
 * Limits the memory of the bodies of all requests under way. A body's memory is reserved from its first byte until its
 * message is stored, so that many large uploads or a slow disk lead to 503 and not to the end of the process.
 *
 * The memory is shared, so that slow uploads to one pipe cannot take all of it:
 *
 *   0 ──────────────── 12/16 ──────── 14/16 ──────── 15/16 ──────── 16/16
 *     everyone           pipes within   workspaces     bodies up to 64 KiB
 *                        their share    within theirs  of these
 *
 * A share is an equal part, computed for one more holder than there is, so that a new one finds room.
 */
export interface BodyMemory {
  /** For one request to this pipe. Reserves nothing yet. */
  open(pipe: { workspaceId: string; pipeId: string }): BodyReservation
  /** Bytes held by all requests together. */
  heldBytes(): number
}

export interface BodyReservation {
  /** Throws `buffer_unavailable` when there is no room for this many more bytes. */
  add(bytes: number): void
  /** Releases everything. Adding afterwards is a bug. */
  release(): void
}

/** An index in the head entry. */
const totalAt = 1
const workspacesAt = 2

/** Threads with the same counters share the memory limit. */
export function createBodyMemory(
  maxBytes: number,
  counters: SharedCounters = new SharedCounters(),
): BodyMemory {
  const { numbers } = counters
  const forEveryone = Math.floor((maxBytes * 12) / 16)

  const mayReach = (workspace: number, pipe: number, bodyBytes: number, bytes: number): number => {
    if (numbers[pipe + bodyBytesAt]! + bytes > maxBytes / (numbers[workspace + bodyPipesAt]! + 1))
      return forEveryone
    if (numbers[workspace + bodyBytesAt]! + bytes > maxBytes / (numbers[workspacesAt]! + 1))
      return (maxBytes * 14) / 16
    return bodyBytes > resourceLimits.smallBodyBytes ? (maxBytes * 15) / 16 : maxBytes
  }
  const hold = (workspace: number, pipe: number, bytes: number) => {
    numbers[totalAt]! += bytes
    numbers[workspacesAt]! += change(numbers, workspace + bodyBytesAt, bytes)
    numbers[workspace + bodyPipesAt]! += change(numbers, pipe + bodyBytesAt, bytes)
  }

  const add = (workspace: number, pipe: number, reserved: number, bytes: number): boolean => {
    const total = numbers[totalAt]!
    const next = total + bytes
    // A single body always fits, whatever the two settings are.
    if (next > forEveryone && total > reserved && next > mayReach(workspace, pipe, reserved + bytes, bytes))
      return false
    hold(workspace, pipe, bytes)
    return true
  }

  return {
    heldBytes: () => numbers[totalAt]!,
    open: ({ workspaceId, pipeId }) => {
      // Pipe ids and workspace ids are UUIDs, so they cannot collide.
      const workspace = counters.entry(workspaceId)
      const pipe = counters.entry(pipeId)
      let reserved = 0
      return {
        add: (bytes) => {
          if (!counters.locked(headEntry, () => add(workspace, pipe, reserved, bytes))) throw overloaded()
          reserved += bytes
        },
        release: () => {
          if (reserved > 0) counters.locked(headEntry, () => hold(workspace, pipe, -reserved))
          reserved = 0
        },
      }
    },
  }
}

/** The change of the number of holders: 1 for a holder's first bytes, -1 for its last. */
function change(numbers: Float64Array, at: number, bytes: number): number {
  const before = numbers[at]!
  numbers[at] = before + bytes
  return Number(before + bytes > 0) - Number(before > 0)
}

function overloaded(): ApiError {
  return new ApiError('buffer_unavailable', {
    message:
      'Too many large requests are in progress. Nothing was stored; it is safe to send the request again.',
    details: { msg_id: newMsgId(), details: { reason: 'too_many_bytes_in_flight' } },
    headers: { 'Retry-After': '5' },
  })
}
