/**
 * Limits on how much a pipe takes (contract "Ingest", "Quotas"; spec "Pipe limits"): a token bucket per second and
 * quotas per UTC day, all-or-nothing, only for pipes with a limits row. Bytes are those of the stored body (after
 * enrichment).
 *
 * The bucket holds max(rate, records per request), so that the largest request the pipe allows can pass at all.
 * The day's sums start from what metadata counted for the day and include what was accepted while there was no limits
 * row. What could not be stored is refunded.
 *
 * Quota days follow the wall clock; the last three are kept so that a clock step does not reset them. All of it is in
 * memory that the threads of ingest share: what they allow together is what the limit says.
 */
import { ApiError } from '../contract/errors.ts'
import type { PipeLimits } from '../contract/pipe.ts'
import { dayMs } from '../quantities.ts'
import { type DaySums, QuotaState } from './quota-state.ts'
import { SharedCounters } from './shared-counters.ts'

const reorderedMs = 1_000

/** What is left of one limit: the `X-RateLimit-…` headers. */
export interface LimitState {
  limit: number
  remaining: number
  /** Seconds until the limit is whole again. */
  resetSeconds: number
}

/** What was reserved, to be refunded when the append fails. */
export interface Reservation {
  pipeId: string
  amount: DaySums
  dayStartMs: number
  state: LimitState
}

/** Async, so that several machines can share one. */
export interface Quota {
  /** Rejects with `rate_limit_exceeded` or `daily_quota_exceeded`; nothing is taken then. */
  reserve(pipeId: string, limits: PipeLimits, amount: DaySums, nowMs: number): Promise<Reservation>
  refund(reserved: Reservation): void
  /** Accepted while the pipe had no limits row: counts for the day, should it get one. */
  count(pipeId: string, amount: DaySums, nowMs: number): void
}

interface Bucket {
  tokens: number
}

/**
 * `today`: what each pipe took since the start of the UTC day that `nowMs` lies in; given once for the counters, by the
 * thread that made them. Every thread with the same counters has the same quotas.
 */
export function createQuota(
  today: Readonly<Record<string, DaySums>>,
  nowMs: number,
  counters: SharedCounters = new SharedCounters(),
): Quota {
  const count = (pipeId: string, amount: DaySums, dayStartMs: number) => {
    const entry = counters.entry(pipeId)
    const state = new QuotaState(counters, entry)
    counters.locked(entry, () => {
      state.day(dayStartMs)
      state.add(dayStartMs, amount, 1)
    })
  }
  for (const [pipeId, sums] of Object.entries(today)) count(pipeId, sums, startOfDay(nowMs))

  return {
    reserve: async (pipeId, limits, amount, atMs) => {
      const dayStartMs = startOfDay(atMs)
      const entry = counters.entry(pipeId)
      const state = new QuotaState(counters, entry)
      const { day, bucket, isTaken } = counters.locked(entry, () => take(state, limits, amount, atMs))
      if (!isTaken) {
        requireDayQuota(day, limits, amount, atMs)
        requireRate(bucket, limits, amount.records)
      }
      return { pipeId, amount, dayStartMs, state: bucketState(bucket, limits) }
    },
    refund: ({ pipeId, amount, dayStartMs }) => {
      const entry = counters.entry(pipeId)
      const state = new QuotaState(counters, entry)
      counters.locked(entry, () => {
        // May lift the bucket over its capacity for a moment: the next refill cuts it.
        if (state.hasBucket) state.tokens += amount.records
        state.add(dayStartMs, amount, -1)
      })
    },
    count: (pipeId, amount, atMs) => count(pipeId, amount, startOfDay(atMs)),
  }
}

/** Under the entry's lock: all of it or nothing. `day` and `bucket` as they were found, the bucket as it is left. */
function take(state: QuotaState, limits: PipeLimits, amount: DaySums, atMs: number) {
  refill(state, limits, atMs)
  const dayStartMs = startOfDay(atMs)
  const day = state.day(dayStartMs)
  const isTaken = exceededDayLimit(day, limits, amount) === null && amount.records <= state.tokens
  if (isTaken) {
    state.tokens -= amount.records
    state.add(dayStartMs, amount, 1)
  }
  return { day, bucket: { tokens: state.tokens }, isTaken }
}

function capacityOf(limits: PipeLimits): number {
  return Math.max(limits.pl_ingest_max_records_per_second, limits.pl_ingest_max_records_per_request)
}

/**
 * A clock that went back neither adds nor takes tokens. Less than `reorderedMs` is no clock but two threads, one of which
 * looked at it before the other and came after it: were the bucket's time put back, the time between would count twice.
 */
function refill(state: QuotaState, limits: PipeLimits, nowMs: number): void {
  if (!state.hasBucket) {
    state.tokens = capacityOf(limits)
    state.refilledMs = nowMs
    return
  }
  const elapsedMs = nowMs - state.refilledMs
  const added = (Math.max(0, elapsedMs) * limits.pl_ingest_max_records_per_second) / 1000
  state.tokens = Math.min(capacityOf(limits), state.tokens + added)
  if (elapsedMs > 0 || elapsedMs < -reorderedMs) state.refilledMs = nowMs
}

function requireRate(bucket: Bucket, limits: PipeLimits, records: number): void {
  if (records <= bucket.tokens) return
  const rate = limits.pl_ingest_max_records_per_second
  const retryAfter = Math.max(1, Math.ceil((records - bucket.tokens) / rate))
  throw exceeded('rate_limit_exceeded', {
    limit: 'pl_ingest_max_records_per_second',
    state: bucketState(bucket, limits),
    current: capacityOf(limits) - Math.floor(bucket.tokens),
    retryAfter,
  })
}

type DayLimit = readonly [limit: keyof PipeLimits, max: number | null, current: number, more: number]

function exceededDayLimit(day: DaySums, limits: PipeLimits, { records, bytes }: DaySums): DayLimit | null {
  const dayLimits: DayLimit[] = [
    ['pl_ingest_max_records_per_day', limits.pl_ingest_max_records_per_day, day.records, records],
    ['pl_ingest_max_bytes_per_day', limits.pl_ingest_max_bytes_per_day, day.bytes, bytes],
  ]
  return dayLimits.find(([, max, current, more]) => max !== null && current + more > max) ?? null
}

function requireDayQuota(day: DaySums, limits: PipeLimits, amount: DaySums, nowMs: number): void {
  const exceededLimit = exceededDayLimit(day, limits, amount)
  if (exceededLimit === null) return
  const [limit, max, current] = exceededLimit
  const retryAfter = Math.max(1, Math.ceil((startOfDay(nowMs) + dayMs - nowMs) / 1000))
  const left = { limit: max ?? 0, remaining: Math.max(0, (max ?? 0) - current), resetSeconds: retryAfter }
  throw exceeded('daily_quota_exceeded', { limit, state: left, current, retryAfter })
}

function bucketState({ tokens }: Bucket, limits: PipeLimits): LimitState {
  const rate = limits.pl_ingest_max_records_per_second
  return {
    limit: rate,
    remaining: Math.max(0, Math.floor(tokens)),
    resetSeconds: Math.ceil(Math.max(0, capacityOf(limits) - tokens) / rate),
  }
}

interface Excess {
  limit: keyof PipeLimits
  state: LimitState
  current: number
  retryAfter: number
}

function exceeded(code: 'rate_limit_exceeded' | 'daily_quota_exceeded', excess: Excess): ApiError {
  const { limit, state, current, retryAfter } = excess
  return new ApiError(code, {
    details: { limit, limit_value: state.limit, current, retry_after_seconds: retryAfter },
    headers: { 'Retry-After': String(retryAfter), ...rateLimitHeaders(state) },
  })
}

export function rateLimitHeaders(state: LimitState): Record<string, string> {
  return {
    'X-RateLimit-Limit': String(state.limit),
    'X-RateLimit-Remaining': String(state.remaining),
    'X-RateLimit-Reset': String(state.resetSeconds),
  }
}

function startOfDay(ms: number): number {
  return ms - (ms % dayMs)
}
