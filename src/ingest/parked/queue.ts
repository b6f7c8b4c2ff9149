/**
 * Parks the mismatching records of requests. The main thread has one queue. Requests of all pipes wait in it, and each
 * step writes as many as fit in one transaction of metadata:
 *
 *   request ─ chunks ─▶ waiting ──one step──▶ transaction, durable ──▶ outcome
 *                          └─ too many wait ──▶ busy: nothing is parked
 *
 * After each step the queue pauses for as long as the step took, because with SQLite a transaction occupies the main
 * thread. So even requests that arrive faster than they can be parked leave half of that thread to other work. One pipe
 * gets half of the waiting room.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { parkedRowBytes } from '../../metadata/parked-store-port.ts'
import type { NewPipeParked, ParkOutcome, ParkRequest, PipeParking } from '../../metadata/pipe-parked-port.ts'

/**
 * `busy`: too many requests wait. Parts of a request that is not parked may be parked: call `unpark`. `unreplicated`: it is parked,
 * but the replica does not answer in time.
 */
export type Parked = ParkOutcome | { kind: 'busy' | 'unreplicated' }

/** Where ingest parks. Outcomes are in the order of the requests. */
export interface MismatchParking {
  /** Durable when it resolves. Rejects with StorageUnavailableError. */
  park(requests: readonly ParkRequest[]): Promise<Parked[]>
  /** Removes the records of a request that was then rejected. */
  unpark(parkedIds: readonly string[]): Promise<void>
}

interface Chunk {
  request: ParkRequest
  bytes: number
  resolve(outcome: ParkOutcome): void
  reject(error: unknown): void
}

interface Waiting {
  requests: number
  bytes: number
}

export class ParkQueue implements MismatchParking {
  readonly #store: PipeParking
  readonly #maxBytes: number
  readonly #replicated: (() => Promise<boolean>) | null
  #chunks: Chunk[] = []
  readonly #waiting: Waiting = { requests: 0, bytes: 0 }
  readonly #byPipe = new Map<string, Waiting>()
  #writing: Promise<void> | null = null

  /** `maxBytes`: the setting parked.max_bytes. `replicated`: true when what is durable is in the replica; null: nothing waits. */
  constructor(store: PipeParking, maxBytes: number, replicated: (() => Promise<boolean>) | null = null) {
    this.#store = store
    this.#replicated = replicated
    this.#maxBytes = maxBytes
  }

  park(requests: readonly ParkRequest[]): Promise<Parked[]> {
    return Promise.all(requests.map((request) => this.#parkOne(request)))
  }

  unpark(parkedIds: readonly string[]): Promise<void> {
    return this.#store.unpark(parkedIds)
  }

  /** Resolves when every request that waits now is parked or rejected. */
  async drain(): Promise<void> {
    while (this.#writing !== null) await this.#writing
  }

  async #parkOne(request: ParkRequest): Promise<Parked> {
    const chunks = chunksOf(request)
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.bytes, 0)
    if (!this.#enter(request.pipeId, bytes)) return { kind: 'busy' }
    try {
      const outcomes = await this.#write(chunks)
      const failed = outcomes.find(({ kind }) => kind !== 'parked')
      if (failed !== undefined) return failed
      const isReplicated = this.#replicated === null || (await this.#replicated())
      return isReplicated ? outcomes[0]! : { kind: 'unreplicated' }
    } finally {
      this.#leave(request.pipeId, bytes)
    }
  }

  /** False: there is no room. A request that is alone is always accepted. */
  #enter(pipeId: string, bytes: number): boolean {
    const ofPipe = this.#byPipe.get(pipeId) ?? { requests: 0, bytes: 0 }
    if (!hasRoom(this.#waiting, bytes, 1) || !hasRoom(ofPipe, bytes, 0.5)) return false
    this.#byPipe.set(pipeId, ofPipe)
    for (const waiting of [this.#waiting, ofPipe]) {
      waiting.requests += 1
      waiting.bytes += bytes
    }
    return true
  }

  #leave(pipeId: string, bytes: number): void {
    const ofPipe = this.#byPipe.get(pipeId)!
    for (const waiting of [this.#waiting, ofPipe]) {
      waiting.requests -= 1
      waiting.bytes -= bytes
    }
    if (ofPipe.requests === 0) this.#byPipe.delete(pipeId)
  }

  async #write(chunks: readonly Omit<Chunk, 'resolve' | 'reject'>[]): Promise<ParkOutcome[]> {
    const outcomes = chunks.map(
      (chunk) =>
        new Promise<ParkOutcome>((resolve, reject) => this.#chunks.push({ ...chunk, resolve, reject })),
    )
    this.#writing ??= this.#writeAll()
    const settled = await Promise.allSettled(outcomes)
    return settled.map((one) => {
      if (one.status === 'rejected') throw one.reason
      return one.value
    })
  }

  async #writeAll(): Promise<void> {
    // The requests of this turn of the event loop share a transaction.
    await delay(0)
    while (this.#chunks.length > 0) {
      const begunMs = performance.now()
      await this.#step(this.#nextStep())
      await delay(performance.now() - begunMs)
    }
    this.#writing = null
  }

  #nextStep(): Chunk[] {
    let [records, bytes, count] = [0, 0, 0]
    for (const chunk of this.#chunks) {
      records += chunk.request.records.length
      bytes += chunk.bytes
      if (count > 0 && !fitsStep(records, bytes)) break
      count += 1
    }
    return this.#chunks.splice(0, count)
  }

  async #step(chunks: readonly Chunk[]): Promise<void> {
    try {
      const requests = chunks.map(({ request }) => request)
      const outcomes = await this.#store.park(requests, this.#maxBytes)
      for (const [index, chunk] of chunks.entries()) chunk.resolve(outcomes[index]!)
    } catch (error) {
      for (const chunk of chunks) chunk.reject(error)
    }
  }
}

function hasRoom(waiting: Waiting, bytes: number, share: number): boolean {
  if (waiting.requests === 0) return true
  const { parkingRequests, parkingBytes } = resourceLimits
  return waiting.requests < parkingRequests * share && waiting.bytes + bytes <= parkingBytes * share
}

function fitsStep(records: number, bytes: number): boolean {
  return records <= resourceLimits.parkingStepRecords && bytes <= resourceLimits.parkingStepBytes
}

/** Splits a request into parts that each fit into one step, unless a single record is larger. */
function chunksOf(request: ParkRequest): { request: ParkRequest; bytes: number }[] {
  const chunks: { request: ParkRequest & { records: NewPipeParked[] }; bytes: number }[] = []
  for (const record of request.records) {
    const bytes = Buffer.byteLength(record.text) + parkedRowBytes
    const last = chunks.at(-1)
    if (last !== undefined && fitsStep(last.request.records.length + 1, last.bytes + bytes)) {
      last.request.records.push(record)
      last.bytes += bytes
    } else chunks.push({ request: { ...request, records: [record] }, bytes })
  }
  return chunks
}

/** Parks over a call to another thread. The requests of one turn of the event loop share a call. */
export class ParkingCalls implements MismatchParking {
  readonly #call: MismatchParking
  #turn: { requests: ParkRequest[]; outcomes: Promise<Parked[]> } | null = null

  constructor(call: MismatchParking) {
    this.#call = call
  }

  async park(requests: readonly ParkRequest[]): Promise<Parked[]> {
    this.#turn ??= this.#begin()
    const turn = this.#turn
    const from = turn.requests.push(...requests) - requests.length
    return (await turn.outcomes).slice(from, from + requests.length)
  }

  unpark(parkedIds: readonly string[]): Promise<void> {
    return this.#call.unpark(parkedIds)
  }

  #begin() {
    const requests: ParkRequest[] = []
    const outcomes = delay(0).then(() => {
      this.#turn = null
      return this.#call.park(requests)
    })
    return { requests, outcomes }
  }
}
