/**
 * Limits on how much a pipe takes (contract "Ingest", "Quotas"; spec "Pipe limits"): a token bucket per second and
 * quotas per UTC day, all-or-nothing, only for pipes with a limits row. Bytes are those of the stored body (after
 * enrichment).
 *
 * The bucket holds max(rate, records per request), so that the largest request the pipe allows can pass at all.
 * The day's sums start from what metadata counted for the day and include what was accepted while there was no limits
 * row. What could not be stored is refunded.
 *
 * Quota days follow the wall clock; the last three are kept so that a clock step does not reset them.
 */
import { ApiError } from '../contract/errors.ts'
import type { PipeLimits } from '../contract/pipe.ts'
import { dayMs } from '../quantities.ts'

/** Today, a day of a wrong clock, and one more. */
const daysKept = 3

/** What is left of one limit: the `X-RateLimit-…` headers. */
export interface LimitState {
  limit: number
  remaining: number
  /** Seconds until the limit is whole again. */
  resetSeconds: number
}

export interface DaySums {
  records: number
  bytes: number
}

/** What was reserved, to be refunded when the append fails. */
export interface Reservation {
  pipeId: string
  amount: DaySums
  dayStartMs: number
  state: LimitState
}

/** Async, so that several processes can share one. */
export interface Quota {
  /** Rejects with `rate_limit_exceeded` or `daily_quota_exceeded`; nothing is taken then. */
  reserve(pipeId: string, limits: PipeLimits, amount: DaySums, nowMs: number): Promise<Reservation>
  refund(reserved: Reservation): void
  /** Accepted while the pipe had no limits row: counts for the day, should it get one. */
  count(pipeId: string, amount: DaySums, nowMs: number): void
}

interface Day extends DaySums {
  startMs: number
}

interface PipeState {
  /** Null until the pipe is first limited: then its bucket is full. */
  bucket: Bucket | null
  /** Latest used first; never empty. */
  days: Day[]
}

interface Bucket {
  tokens: number
  refilledMs: number
}

/** `today`: what each pipe took since the start of the UTC day that `nowMs` lies in. */
export function createQuota(today: Readonly<Record<string, DaySums>>, nowMs: number): Quota {
  const pipes = new Map<string, PipeState>()
  const seededDayMs = startOfDay(nowMs)

  const stateOf = (pipeId: string): PipeState => {
    let state = pipes.get(pipeId)
    if (state === undefined) {
      const seed = Object.hasOwn(today, pipeId) ? today[pipeId] : undefined
      const day = { startMs: seededDayMs, records: seed?.records ?? 0, bytes: seed?.bytes ?? 0 }
      state = { bucket: null, days: [day] }
      pipes.set(pipeId, state)
    }
    return state
  }

  return {
    reserve: async (pipeId, limits, amount, atMs) => {
      const state = stateOf(pipeId)
      const bucket = refilled(state.bucket, limits, atMs)
      state.bucket = bucket
      const day = dayOf(state, atMs)
      requireDayQuota(day, limits, amount, atMs)
      requireRate(bucket, limits, amount.records)
      bucket.tokens -= amount.records
      add(day, amount, 1)
      return { pipeId, amount, dayStartMs: day.startMs, state: bucketState(bucket, limits) }
    },
    refund: ({ pipeId, amount, dayStartMs }) => {
      const state = pipes.get(pipeId)
      if (state === undefined) return
      // May lift the bucket over its capacity for a moment: the next refill cuts it.
      if (state.bucket !== null) state.bucket.tokens += amount.records
      const day = state.days.find(({ startMs }) => startMs === dayStartMs)
      if (day !== undefined) add(day, amount, -1)
    },
    count: (pipeId, amount, atMs) => add(dayOf(stateOf(pipeId), atMs), amount, 1),
  }
}

function add(day: DaySums, { records, bytes }: DaySums, sign: 1 | -1): void {
  day.records += sign * records
  day.bytes += sign * bytes
}

function capacityOf(limits: PipeLimits): number {
  return Math.max(limits.pl_ingest_max_records_per_second, limits.pl_ingest_max_records_per_request)
}

/** A clock that went back neither adds nor takes tokens. */
function refilled(bucket: Bucket | null, limits: PipeLimits, nowMs: number): Bucket {
  if (bucket === null) return { tokens: capacityOf(limits), refilledMs: nowMs }
  const elapsedMs = Math.max(0, nowMs - bucket.refilledMs)
  const added = (elapsedMs * limits.pl_ingest_max_records_per_second) / 1000
  return { tokens: Math.min(capacityOf(limits), bucket.tokens + added), refilledMs: nowMs }
}

function dayOf(state: PipeState, nowMs: number): Day {
  const startMs = startOfDay(nowMs)
  const [latest] = state.days
  if (latest?.startMs === startMs) return latest
  const day = state.days.find((known) => known.startMs === startMs) ?? { startMs, records: 0, bytes: 0 }
  state.days = [day, ...state.days.filter((known) => known !== day)].slice(0, daysKept)
  return day
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

function requireDayQuota(day: DaySums, limits: PipeLimits, { records, bytes }: DaySums, nowMs: number): void {
  const retryAfter = Math.max(1, Math.ceil((startOfDay(nowMs) + dayMs - nowMs) / 1000))
  const require = (limit: keyof PipeLimits, max: number | null, current: number, more: number) => {
    if (max === null || current + more <= max) return
    const left = { limit: max, remaining: Math.max(0, max - current), resetSeconds: retryAfter }
    throw exceeded('daily_quota_exceeded', { limit, state: left, current, retryAfter })
  }
  require('pl_ingest_max_records_per_day', limits.pl_ingest_max_records_per_day, day.records, records)
  require('pl_ingest_max_bytes_per_day', limits.pl_ingest_max_bytes_per_day, day.bytes, bytes)
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
