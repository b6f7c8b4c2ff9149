/**
 * The quotas of one thread of ingest in a cluster: they are decided by the node that owns the pipe, and this thread takes from
 * a block that was granted to it there. A block is what the waiting requests need and, while there is plenty, 10 ms of the rate:
 * so a busy pipe asks a hundred times a second, however many requests it has.
 *
 *   reserve ──fits into the block──▶ taken
 *      └── it cannot pass before the owner's bucket has filled up ──▶ rejected, here
 *      └── waits ──ask (one at a time for a pipe, for all that wait)──▶ granted: in order, what fits is taken, the rest rejected
 *
 * What of a block is not used for a second goes back, as does what was refunded. A block counts for the day it was granted on:
 * at midnight it goes back and another is asked for.
 */
import type { ApiError } from '../contract/errors.ts'
import {
  bucketState,
  capacityOf,
  dayExceeded,
  exceededDayLimit,
  type IngestLimits,
  type Quota,
  type Reservation,
  rateExceeded,
} from './quota.ts'
import type { DaySums } from './quota-state.ts'

/** What one thread asks of a pipe's owner. */
export interface QuotaAsk {
  need: DaySums
  /** More, while there is plenty. */
  spare: DaySums
  /** Granted before, and not used yet. */
  heldRecords: number
  /** Granted before, and given back, with the day it was granted on. */
  returned: DaySums & { dayStartMs: number }
  /** Accepted without a limit since this thread first asked. */
  counted: DaySums & { dayStartMs: number }
}

export interface QuotaGrant {
  /** Up to what was asked for. */
  records: number
  bytes: number
  /** What is left in the owner's bucket. */
  tokens: number
  /** The sums of the day without this grant. */
  day: DaySums
  dayStartMs: number
  /** Until the day is over, by the owner's clock. */
  dayLeftMs: number
}

export type AskQuota = (pipeId: string, limits: IngestLimits, ask: QuotaAsk) => Promise<QuotaGrant>

interface Waiting {
  limits: IngestLimits
  amount: DaySums
  resolve(reservation: Reservation): void
  reject(error: unknown): void
}

interface Block extends DaySums {
  limits: IngestLimits
  dayStartMs: number
  /** By this machine's clock. */
  dayEndMs: number
  usedMs: number
  /** The owner's, as it was then. */
  tokens: number
  day: DaySums
  heardMs: number
  counted: DaySums & { dayStartMs: number }
  waiting: Waiting[]
  isAsking: boolean
}

const spareMs = 10
const idleMs = 1_000
const lookEveryMs = 500
const forgottenAfterMs = 3_600_000

export interface BlockQuota extends Quota {
  /** Gives everything back. */
  close(): Promise<void>
}

/** `ask` does not reject: without an owner it grants the node's share. */
export function createBlockQuota(ask: AskQuota, now: () => number = Date.now): BlockQuota {
  return new Blocks(ask, now)
}

class Blocks implements BlockQuota {
  readonly #ask: AskQuota
  readonly #now: () => number
  readonly #blocks = new Map<string, Block>()
  readonly #look: NodeJS.Timeout

  constructor(ask: AskQuota, now: () => number) {
    this.#ask = ask
    this.#now = now
    this.#look = setInterval(() => this.#giveBackIdle(), lookEveryMs)
    this.#look.unref()
  }

  async reserve(pipeId: string, limits: IngestLimits, amount: DaySums, nowMs: number): Promise<Reservation> {
    const block = this.#blocks.get(pipeId) ?? this.#open(pipeId, limits)
    block.limits = limits
    block.usedMs = nowMs
    if (nowMs >= block.dayEndMs && block.dayEndMs > 0) this.#giveBack(pipeId, block)
    if (block.waiting.length === 0) {
      if (fits(block, amount)) return taken(pipeId, block, limits, amount, nowMs)
      const error = certainly(block, limits, amount, nowMs)
      if (error !== null) throw error
    }
    return await new Promise((resolve, reject) => {
      block.waiting.push({ limits, amount, resolve, reject })
      if (!block.isAsking) void this.#askForWaiting(pipeId, block)
    })
  }

  refund({ pipeId, amount, dayStartMs }: Reservation): void {
    const block = this.#blocks.get(pipeId)
    if (block === undefined || block.dayStartMs !== dayStartMs) return
    block.records += amount.records
    block.bytes += amount.bytes
  }

  /** Of a pipe that was never limited here, its owner finds in the log what it has had. */
  count(pipeId: string, amount: DaySums, nowMs: number): void {
    const block = this.#blocks.get(pipeId)
    if (block === undefined) return
    if (nowMs >= block.dayEndMs) block.counted = { records: 0, bytes: 0, dayStartMs: block.dayStartMs }
    else add(block.counted, amount)
  }

  async close(): Promise<void> {
    clearInterval(this.#look)
    await Promise.all([...this.#blocks].map(([pipeId, block]) => this.#giveBack(pipeId, block)))
  }

  #open(pipeId: string, limits: IngestLimits): Block {
    const block: Block = {
      ...{ records: 0, bytes: 0, limits, usedMs: 0, dayStartMs: 0, dayEndMs: 0 },
      ...{ tokens: Number.POSITIVE_INFINITY, day: { records: 0, bytes: 0 }, heardMs: 0 },
      counted: { records: 0, bytes: 0, dayStartMs: 0 },
      ...{ waiting: [], isAsking: false },
    }
    this.#blocks.set(pipeId, block)
    return block
  }

  async #askForWaiting(pipeId: string, block: Block): Promise<void> {
    block.isAsking = true
    try {
      while (block.waiting.length > 0) {
        const asked = block.waiting.length
        await this.#askOnce(pipeId, block)
        // Later ones are tried too, and ask again where they do not fit.
        this.#settle(pipeId, block, asked)
      }
    } catch (error) {
      for (const { reject } of block.waiting.splice(0)) reject(error)
    } finally {
      block.isAsking = false
    }
  }

  async #askOnce(pipeId: string, block: Block): Promise<void> {
    const { limits } = block
    const wanted: DaySums = { records: 0, bytes: 0 }
    for (const { amount } of block.waiting) add(wanted, amount)
    const need = less(wanted, block)
    const spareRecords = Math.ceil((limits.pl_ingest_max_records_per_second * spareMs) / 1000)
    const bytesEach = wanted.records === 0 ? 0 : Math.ceil(wanted.bytes / wanted.records)
    const spare = { records: spareRecords, bytes: spareRecords * bytesEach }
    const counted = block.counted
    block.counted = { records: 0, bytes: 0, dayStartMs: counted.dayStartMs }
    const returned = { records: 0, bytes: 0, dayStartMs: block.dayStartMs }
    const grant = await this.#ask(pipeId, limits, {
      ...{ need, spare, returned, counted },
      heldRecords: Math.max(0, block.records - wanted.records),
    })
    this.#granted(pipeId, block, grant)
  }

  #granted(pipeId: string, block: Block, grant: QuotaGrant): void {
    const nowMs = this.#now()
    // What is left of another day goes back to that one.
    if (block.dayStartMs !== grant.dayStartMs) this.#giveBack(pipeId, block)
    block.dayStartMs = grant.dayStartMs
    block.dayEndMs = nowMs + grant.dayLeftMs
    block.tokens = grant.tokens
    block.day = grant.day
    block.heardMs = nowMs
    block.counted.dayStartMs = grant.dayStartMs
    add(block, grant)
    add(block.day, grant)
  }

  /** In order; the first `asked` of them are decided, later ones where they fit. */
  #settle(pipeId: string, block: Block, asked: number): void {
    const nowMs = this.#now()
    const later: Waiting[] = []
    for (const [index, one] of block.waiting.entries()) {
      if (fits(block, one.amount)) one.resolve(taken(pipeId, block, one.limits, one.amount, nowMs))
      else if (index >= asked) later.push(one)
      else one.reject(errorOf(block, one.limits, one.amount, nowMs))
    }
    block.waiting = later
  }

  #giveBackIdle(): void {
    const nowMs = this.#now()
    for (const [pipeId, block] of this.#blocks) {
      const unusedMs = nowMs - block.usedMs
      if (block.isAsking || (unusedMs >= 0 && unusedMs < idleMs)) continue
      void this.#giveBack(pipeId, block)
      if (unusedMs > forgottenAfterMs) this.#blocks.delete(pipeId)
    }
  }

  async #giveBack(pipeId: string, block: Block): Promise<void> {
    const { records, bytes, dayStartMs, limits } = block
    if (records <= 0 && bytes <= 0) return
    block.records = 0
    block.bytes = 0
    const none = { records: 0, bytes: 0 }
    const returned = { records, bytes, dayStartMs }
    const ask = { need: none, spare: none, heldRecords: 0, returned, counted: { ...none, dayStartMs } }
    // Lost otherwise: the bucket fills up by itself.
    await this.#ask(pipeId, limits, ask).catch(() => {})
  }
}

function fits(block: DaySums, { records, bytes }: DaySums): boolean {
  return records <= block.records && bytes <= block.bytes
}

function add(sums: DaySums, more: DaySums): void {
  sums.records += more.records
  sums.bytes += more.bytes
}

function less(sums: DaySums, held: DaySums): DaySums {
  return {
    records: Math.max(0, sums.records - held.records),
    bytes: Math.max(0, sums.bytes - held.bytes),
  }
}

function taken(
  pipeId: string,
  block: Block,
  limits: IngestLimits,
  amount: DaySums,
  nowMs: number,
): Reservation {
  block.records -= amount.records
  block.bytes -= amount.bytes
  block.usedMs = nowMs
  const state = bucketState({ tokens: tokensLeft(block, limits, nowMs) }, limits)
  return { pipeId, amount, dayStartMs: block.dayStartMs, state }
}

/** As far as it is known here: what others take meanwhile is not. */
function tokensLeft(block: Block, limits: IngestLimits, nowMs: number): number {
  const filled = (Math.max(0, nowMs - block.heardMs) * limits.pl_ingest_max_records_per_second) / 1000
  return Math.min(capacityOf(limits), block.tokens + filled + block.records)
}

/** The owner need not be asked: there are no more tokens than that, and the sums of a day only grow. Null: it may pass. */
function certainly(block: Block, limits: IngestLimits, amount: DaySums, nowMs: number): ApiError | null {
  if (nowMs - block.heardMs > idleMs || nowMs < block.heardMs || nowMs >= block.dayEndMs) return null
  if (exceededDayLimit(block.day, limits, amount) !== null && amount.records > 0 && !hasAny(block)) {
    return errorOf(block, limits, amount, nowMs)
  }
  return amount.records > tokensLeft(block, limits, nowMs) ? errorOf(block, limits, amount, nowMs) : null
}

/** Of the day's sums, a part is here and may come back. */
function hasAny({ records, bytes }: DaySums): boolean {
  return records > 0 || bytes > 0
}

function errorOf(block: Block, limits: IngestLimits, amount: DaySums, nowMs: number): ApiError {
  // What is in the block is in the sums of the day already.
  const overDay = dayExceeded(less(block.day, block), limits, amount, nowMs)
  const tokens = Math.min(tokensLeft(block, limits, nowMs), amount.records)
  return overDay ?? rateExceeded({ tokens }, limits, amount.records)
}
