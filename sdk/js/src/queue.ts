/**
 * The queue of a client: batches of records, oldest first, in a store that the environment provides.
 *
 *   send ──▶ open batch ──full, old, flushed──▶ batch ──202──▶ removed
 *                                               │  ▲
 *                 408, 429, 5xx, no response … ─┴──┘   400, 413, 422 ──▶ two halves … ──▶ the rejected record is dropped
 *
 * Each batch is an item of the store from its first record on. Its name ends with the batch's Idempotency-Key. Its
 * value is a time and the body, `1790000000000[{…},\n{…}]`, which does not change once it was sent. Until that time
 * the batch belongs to the client that wrote it; afterwards each client of the same store can send it. So the next
 * page sends the batches that a closed tab has left. Two tabs that take the same batch send the same bytes under the
 * same key, and the daemon stores them once.
 *
 * A negative time is the time at which the batch was given to sendBeacon, which reports no outcome: it is sent again,
 * under its key. Without a store, or if the store is full, the items are in memory.
 */
import type { DropReason, Problem } from './types.ts'

/** The part of `Storage` that is used. `setItem` throws if the item cannot be stored. */
export interface BatchStore {
  /** Whether it shows the items of other clients that are still running. */
  isShared?: boolean
  keys(): string[]
  getItem(name: string): string | null
  setItem(name: string, item: string): void
  removeItem(name: string): void
  /** Adds a record to the last batch, instead of `setItem` with the complete batch. Throws if it cannot. */
  append?(name: string, text: string): void
  /** Resolves once the batch survives a power failure. It is called before the batch is sent. */
  sync?(name: string): Promise<void>
  /** The client ends: other clients can take the items. */
  close?(): void
}

export interface QueueSettings {
  /** Begins the name of each batch. */
  prefix: string
  store?: BatchStore
  batch: { maxRecords: number; maxBytes: number; maxWaitMs: number }
  queue: { maxRecords: number; maxBytes: number }
  dropped(records: unknown[], reason: DropReason, problem?: Problem): void
}

/** How long a batch belongs to the client that sends it. */
export const leaseMs = 60_000
/** How long a beacon can take before its batch is sent again. */
export const beaconMs = 5_000

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: small functions over shared variables, whose names the minifier shortens; it leaves the properties of a class
export function openQueue({ prefix, store, batch, queue, dropped }: QueueSettings) {
  const memory: Record<string, string> = {}
  const counts: Record<string, number> = {}
  /** The batch to which records are added. Empty if there is none. Its body has no closing bracket. */
  let open = ''
  let openBody = ''
  let openBytes = 0
  let openedAt = 0
  /** It stays with this client until then. */
  let openUntil = 0
  let lastId = 0

  const inStore = <T>(use: (store: BatchStore) => T): T | undefined => {
    try {
      return store && use(store)
    } catch {}
  }
  /** Returns whether it was stored. */
  const change = (use: (store: BatchStore) => void) =>
    inStore((used) => {
      use(used)
      return true
    })
  const save = (name: string, item: string) => {
    if (change((used) => used.setItem(name, item))) delete memory[name]
    else memory[name] = item
  }
  const read = (name: string) => memory[name] || inStore((used) => used.getItem(name)) || ''
  const remove = (name: string) => {
    delete memory[name]
    delete counts[name]
    inStore((used) => used.removeItem(name))
  }
  /** The names of all batches, oldest first. */
  const names = () =>
    [...new Set(Object.keys(memory).concat(inStore((used) => used.keys()) || []))]
      .filter((name) => name.startsWith(prefix))
      .sort()
  /** An item that another script wrote under such a name has no time: it is sent immediately. */
  const timeOf = (name: string) => Number.parseInt(read(name), 10) || 0
  const bodyOf = (name: string) => read(name).replace(/^[^[]*/, '')
  /** Batches of other clients are counted each time, because they can grow. */
  const countOf = (name: string) => counts[name] || bodyOf(name).split(',\n').length
  const waitOf = (name: string) => {
    const time = timeOf(name)
    return (time < 0 ? beaconMs - time : time) - Date.now()
  }
  /** This script never writes a time so far ahead, so the clock was set back. */
  const isFree = (name: string) => name !== open && (waitOf(name) <= 0 || waitOf(name) > 7_200_000)

  const drop = (name: string, reason: DropReason, problem?: Problem) => {
    const body = bodyOf(name)
    remove(name)
    let records: unknown[] = []
    try {
      records = JSON.parse(body)
    } catch {}
    dropped(records, reason, problem)
  }
  /** Halves a batch that was rejected, until the rejected record is alone. */
  const split = (name: string, problem: Problem) => {
    const texts = bodyOf(name).slice(1, -1).split(',\n')
    if (texts.length < 2) return drop(name, 'rejected', problem)
    const half = texts.length >> 1
    // The names are derived from the name of the batch: a page that closes in between repeats the split, and nothing
    // is stored twice.
    save(`${name}0`, `0[${texts.slice(0, half).join(',\n')}]`)
    save(`${name}1`, `0[${texts.slice(half).join(',\n')}]`)
    counts[`${name}0`] = half
    counts[`${name}1`] = texts.length - half
    remove(name)
  }

  const openItem = (body: string) => `${Math.max(Date.now(), openUntil) + leaseMs + body}]`
  /** Extends the lease of the open batch: it can wait for the others. */
  const keepOpen = (until: number) => {
    openUntil = until
    if (open) save(open, openItem(openBody))
  }
  const seal = () => {
    if (open) save(open, `0${openBody}]`)
    open = ''
  }
  /** Returns false if the record does not fit into the open batch, or if there is none. */
  const grow = (text: string, bytes: number) => {
    const body = `${openBody},\n${text}`
    const fits = open && openBytes + bytes <= batch.maxBytes && countOf(open) < batch.maxRecords
    if (!fits) return false
    // The item stays as it is if the store cannot take more.
    const isStored =
      memory[open] ||
      change((used) => (used.append ? used.append(open, text) : used.setItem(open, openItem(body))))
    if (!isStored) return false
    openBody = body
    openBytes += bytes
    counts[open] = countOf(open) + 1
    return true
  }
  /** Discards the oldest batches, so that the limits of the queue hold with `more` bytes. */
  const trim = (more = 0) => {
    let bytes = queue.maxBytes - more
    let records = queue.maxRecords
    for (const name of names().reverse()) {
      bytes -= read(name).length
      records -= countOf(name)
      if ((bytes < 0 || records < 0) && isFree(name)) drop(name, 'full')
    }
  }
  /** Adds a record. Returns whether the batch before it is complete. */
  const add = (text: string, bytes: number) => {
    if (grow(text, bytes)) return false
    const wasOpen = open !== ''
    seal()
    trim(bytes)
    openedAt = Date.now()
    lastId = Math.max(lastId + 1, openedAt)
    open = `${prefix}${lastId.toString(36)}-${crypto.getRandomValues(new Uint32Array(4)).join('')}`
    openBody = `[${text}`
    openBytes = bytes
    counts[open] = 1
    save(open, openItem(openBody))
    return wasOpen
  }
  /** The next batch that can be sent. The open one is, once it has waited long enough. */
  const next = () => {
    if (open && openAge() >= batch.maxWaitMs) seal()
    return names().find(isFree)
  }
  const openAge = () => Date.now() - openedAt
  /** The milliseconds until a batch can be sent, or undefined without any. */
  const wait = () => {
    const waits = names().map((name) => (name === open ? batch.maxWaitMs - openAge() : waitOf(name)))
    return waits.length ? Math.min(...waits) : undefined
  }

  trim()
  return {
    ...{
      names,
      timeOf,
      bodyOf,
      countOf,
      isFree,
      save,
      remove,
      drop,
      split,
      seal,
      keepOpen,
      trim,
      add,
      next,
      wait,
    },
    sync: (name: string) => inStore((used) => used.sync?.(name)),
    close: () => inStore((used) => used.close?.()),
    /** Any client of the store can send it from now on. */
    release: (name: string) => save(name, 0 + bodyOf(name)),
    /** False for the batches of another client that can be running. */
    isOwn: (name: string) => !store?.isShared || !!counts[name],
    /** Whether the batch is only in memory. */
    isInMemory: (name: string) => !!memory[name],
  }
}

export type Queue = ReturnType<typeof openQueue>
