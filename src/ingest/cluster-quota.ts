/**
 * Limits of a pipe on one node of a cluster. They are stored in the pipe's entry in the shared counters, which has
 * thirteen numbers, eleven of them used here. All ingest threads of the node use them under the entry's lock.
 *
 *   0 tokens   1 filled, ms   2 share   3 records asked for   4 end of the day, ms   5 ledger
 *   6 records and 7 bytes left in the block   8 records and 9 bytes reserved by all nodes   10 exhausted until, ms
 *
 * The day: the node takes from a block that main reserved in the database (cluster/quotas.ts). The rate: a bucket that
 * fills with the node's share of the rate. Its capacity is the node's share of a single machine's bucket, but at least
 * one record. A request larger than the bucket passes when the bucket is full, and leaves it in debt. A negative share
 * marks a node that has not requested more: a request that does not fit asks main, which requests more.
 *
 * Times use the monotonic clock, so a jump of the wall clock neither fills a bucket nor ends a day.
 */
import type { ApiError } from '../contract/errors.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import { sharedMs } from '../platform/shared-clock.ts'
import {
  bucketState,
  capacityOf,
  dayExceeded,
  type IngestLimits,
  type Quota,
  type Reservation,
  rateExceeded,
} from './admission.ts'
import { type DaySums, entryHead, type SharedCounters } from './shared-counters.ts'

/** `ask`: main can possibly get more. The others are final for now. */
export type Refusal = 'ask' | 'rate' | 'day'
/** Main's response to a thread. `unavailable`: the database did not respond in time. */
export type AskedQuota = Reservation | 'rate' | 'day' | 'unavailable'
export type AskQuota = (pipeId: string, limits: IngestLimits, amount: DaySums) => Promise<AskedQuota>

export interface ReservedBlock {
  /** Identifies the sums from which the block was taken. A new number invalidates the rest of the previous block. */
  ledger: number
  amount: DaySums
  /** Reserved by all nodes, including this block. */
  reserved: DaySums
  dayEndMs: number
  /** Null when more can be available. */
  exhaustedUntilMs: number | null
}

/** The quotas of one ingest thread or of main. `ask` must not reject. */
export function createClusterQuota(counters: SharedCounters, ask: AskQuota, now = sharedMs): Quota {
  return {
    async reserve(pipeId, limits, amount) {
      const allowance = new PipeAllowance(counters, pipeId)
      const taken = allowance.request(limits, amount, now())
      const outcome = taken === 'ask' ? await ask(pipeId, limits, amount) : taken
      if (typeof outcome !== 'string') return outcome
      if (outcome === 'unavailable') throw new StorageUnavailableError('quota: the day could not be reserved')
      throw allowance.errorOf(outcome, limits, amount, now())
    },
    refund: (reserved) => new PipeAllowance(counters, reserved.pipeId).refund(reserved),
    // Not needed: the sums of a day start with the usage, which includes records accepted without limits.
    count: () => {},
  }
}

export class PipeAllowance {
  readonly #pipeId: string
  readonly #counters: SharedCounters
  readonly #numbers: Float64Array
  readonly #entry: number
  readonly #at: number

  constructor(counters: SharedCounters, pipeId: string) {
    this.#pipeId = pipeId
    this.#counters = counters
    this.#numbers = counters.numbers
    this.#entry = counters.entry(pipeId)
    this.#at = this.#entry + entryHead
  }

  /** Takes the whole amount or nothing for a new request, which counts as demand. */
  request(limits: IngestLimits, amount: DaySums, nowMs: number): Reservation | Refusal {
    return this.#counters.locked(this.#entry, () => {
      this.#add(3, amount.records)
      return this.#take(limits, amount, nowMs)
    })
  }

  /** The same for waiting requests, in order. */
  takeEach(
    waiting: readonly { limits: IngestLimits; amount: DaySums }[],
    nowMs: number,
  ): (Reservation | Refusal)[] {
    return this.#counters.locked(this.#entry, () =>
      waiting.map(({ limits, amount }) => this.#take(limits, amount, nowMs)),
    )
  }

  refund({ amount, day }: Reservation): void {
    this.#counters.locked(this.#entry, () => {
      if (this.#get(5) !== day || day === 0) return
      this.#add(0, amount.records)
      this.#add(6, amount.records)
      this.#add(7, amount.bytes)
    })
  }

  addBlock({ ledger, amount, reserved, dayEndMs, exhaustedUntilMs }: ReservedBlock): void {
    this.#counters.locked(this.#entry, () => {
      const left = this.#get(5) === ledger ? this.#left() : { records: 0, bytes: 0 }
      this.#set(4, dayEndMs)
      this.#set(5, ledger)
      this.#set(6, left.records + amount.records)
      this.#set(7, left.bytes + amount.bytes)
      this.#set(8, reserved.records)
      this.#set(9, reserved.bytes)
      this.#set(10, exhaustedUntilMs ?? 0)
    })
  }

  /** Removes the rest of the block. Later refunds to it are ignored. */
  takeBlock(): DaySums {
    return this.#counters.locked(this.#entry, () => {
      const left = this.#left()
      this.#set(5, 0)
      this.#set(6, 0)
      this.#set(7, 0)
      this.#set(10, 0)
      return left
    })
  }

  /** `isUnused`: no node needed the added share, so a node that starts to ask gets one second of it immediately. */
  setShare(share: number, limits: IngestLimits, nowMs: number, isUnused = false): void {
    this.#counters.locked(this.#entry, () => {
      const before = this.#get(2)
      if (before === 0) this.#set(0, bucketOf(limits, share))
      else this.#fill(limits, nowMs)
      if (before < 0 && share > 0 && isUnused)
        this.#add(0, (share + before) * limits.pl_ingest_max_records_per_second)
      this.#set(1, nowMs)
      this.#set(2, share)
    })
  }

  get share(): number {
    return this.#get(2)
  }

  /** Records requested since the entry was created, accepted or not. */
  get asked(): number {
    return this.#get(3)
  }

  /** The rest of the block; nothing when its day is over. */
  leftOfBlock(nowMs: number): DaySums {
    return nowMs < this.#get(4) ? this.#left() : { records: 0, bytes: 0 }
  }

  hasTokens(limits: IngestLimits, records: number, nowMs: number): boolean {
    return this.#counters.locked(this.#entry, () => {
      this.#fill(limits, nowMs)
      return this.#passes(limits, records)
    })
  }

  errorOf(refusal: 'rate' | 'day', limits: IngestLimits, amount: DaySums, nowMs: number): ApiError {
    if (refusal === 'rate') return rateExceeded(this.#bucket(limits), limits, amount.records)
    const left = this.#left()
    const used = { records: this.#get(8) - left.records, bytes: this.#get(9) - left.bytes }
    const leftMs = Math.max(0, this.#get(4) - nowMs)
    // The limits were raised just now, after this request.
    const full = { records: limits.pl_ingest_max_records_per_day, bytes: 0 }
    return (dayExceeded(used, limits, amount, leftMs) ?? dayExceeded(full, limits, amount, leftMs))!
  }

  #take(limits: IngestLimits, amount: DaySums, nowMs: number): Reservation | Refusal {
    const share = this.share
    if (share === 0) return 'ask'
    this.#fill(limits, nowMs)
    const left = this.leftOfBlock(nowMs)
    const fitsDay = amount.records <= left.records && amount.bytes <= left.bytes
    if (!fitsDay && nowMs < this.#get(10)) return 'day'
    const fitsRate = this.#passes(limits, amount.records)
    if (!fitsRate && share > 0) return 'rate'
    if (!fitsDay || !fitsRate) return 'ask'
    this.#add(0, -amount.records)
    this.#add(6, -amount.records)
    this.#add(7, -amount.bytes)
    return {
      pipeId: this.#pipeId,
      amount,
      day: this.#get(5),
      state: bucketState(this.#bucket(limits), limits),
    }
  }

  #bucket(limits: IngestLimits) {
    const share = Math.abs(this.share)
    return { tokens: this.#get(0), share, capacity: bucketOf(limits, share) }
  }

  #passes(limits: IngestLimits, records: number): boolean {
    return this.#get(0) >= Math.min(records, bucketOf(limits, this.share))
  }

  #fill(limits: IngestLimits, nowMs: number): void {
    const rate = limits.pl_ingest_max_records_per_second * Math.abs(this.share)
    const added = (Math.max(0, nowMs - this.#get(1)) * rate) / 1000
    this.#set(0, Math.min(bucketOf(limits, this.share), this.#get(0) + added))
    this.#set(1, Math.max(nowMs, this.#get(1)))
  }

  #left(): DaySums {
    return { records: this.#get(6), bytes: this.#get(7) }
  }

  #get(index: number): number {
    return this.#numbers[this.#at + index]!
  }

  #set(index: number, value: number): void {
    this.#numbers[this.#at + index] = value
  }

  #add(index: number, value: number): void {
    this.#set(index, this.#get(index) + value)
  }
}

/** The capacity, in records, of the bucket of a node with this share. */
function bucketOf(limits: IngestLimits, share: number): number {
  return Math.max(1, capacityOf(limits) * Math.abs(share))
}
