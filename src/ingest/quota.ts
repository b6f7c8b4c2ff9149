/**
 * Limits on how much a pipe takes (contract "Ingest"; spec "Pipe limits"): a token bucket per second and quotas per UTC
 * day, all-or-nothing, only for pipes with a limits row. Bytes are those of the stored body (after enrichment).
 *
 * The bucket holds max(rate, records per request), so that the largest request the pipe allows can pass at all.
 * The day's sums start from what metadata counted for the day. What could not be stored is given back.
 *
 * A record counts for the day that the clock says. The days a pipe was in last are kept, so that a clock which was
 * wrong for a while and is put right goes on with the day it left: neither a fresh quota nor one that never ends.
 */
import { ApiError } from '../contract/errors.ts'
import type { PipeLimits } from '../contract/limits.ts'

const dayMs = 86_400_000
/** Today, a wrong day, and one more. */
const daysKept = 3

/** How one limit stands: the `X-RateLimit-…` headers. */
export interface LimitState {
  limit: number
  remaining: number
  /** Seconds until the limit is whole again. */
  resetSeconds: number
}

/** What was taken, to be given back when the append fails. */
export interface Taken {
  pipeId: string
  records: number
  bytes: number
  dayStartMs: number
  state: LimitState
}

export interface Quota {
  /** Throws `rate_limit_exceeded` or `daily_quota_exceeded`; nothing is taken then. */
  take(pipeId: string, limits: PipeLimits, records: number, bytes: number, nowMs: number): Taken
  giveBack(taken: Taken): void
}

export interface DaySums {
  records: number
  bytes: number
}

interface Day extends DaySums {
  startMs: number
}

interface PipeState {
  tokens: number
  refilledMs: number
  /** Latest used first; never empty. */
  days: Day[]
}

/** `today`: what each pipe took since the start of the UTC day that `nowMs` lies in. */
export function createQuota(today: Readonly<Record<string, DaySums>>, nowMs: number): Quota {
  const pipes = new Map<string, PipeState>()
  const seededDayMs = startOfDay(nowMs)

  const stateOf = (pipeId: string, limits: PipeLimits, atMs: number): PipeState => {
    let state = pipes.get(pipeId)
    if (state === undefined) {
      const seed = Object.hasOwn(today, pipeId) ? today[pipeId] : undefined
      state = {
        tokens: capacityOf(limits),
        refilledMs: atMs,
        days: [{ startMs: seededDayMs, records: seed?.records ?? 0, bytes: seed?.bytes ?? 0 }],
      }
      pipes.set(pipeId, state)
    }
    refill(state, limits, atMs)
    return state
  }

  return {
    take: (pipeId, limits, records, bytes, atMs) => {
      const state = stateOf(pipeId, limits, atMs)
      const day = dayOf(state, atMs)
      requireDayQuota(day, limits, records, bytes, atMs)
      requireRate(state, limits, records)
      state.tokens -= records
      day.records += records
      day.bytes += bytes
      return { pipeId, records, bytes, dayStartMs: day.startMs, state: bucketState(state, limits) }
    },
    giveBack: (taken) => {
      const state = pipes.get(taken.pipeId)
      if (state === undefined) return
      // May lift the bucket over its capacity for a moment: the next refill cuts it.
      state.tokens += taken.records
      const day = state.days.find(({ startMs }) => startMs === taken.dayStartMs)
      if (day === undefined) return
      day.records -= taken.records
      day.bytes -= taken.bytes
    },
  }
}

function capacityOf(limits: PipeLimits): number {
  return Math.max(limits.pl_ingest_max_records_per_second, limits.pl_ingest_max_records_per_request)
}

/** A clock that went back neither adds nor takes tokens. */
function refill(state: PipeState, limits: PipeLimits, nowMs: number): void {
  const elapsedMs = Math.max(0, nowMs - state.refilledMs)
  const added = (elapsedMs * limits.pl_ingest_max_records_per_second) / 1000
  state.tokens = Math.min(capacityOf(limits), state.tokens + added)
  state.refilledMs = nowMs
}

function dayOf(state: PipeState, nowMs: number): Day {
  const startMs = startOfDay(nowMs)
  const [latest] = state.days
  if (latest?.startMs === startMs) return latest
  const day = state.days.find((known) => known.startMs === startMs) ?? { startMs, records: 0, bytes: 0 }
  state.days = [day, ...state.days.filter((known) => known !== day)].slice(0, daysKept)
  return day
}

function requireRate(state: PipeState, limits: PipeLimits, records: number): void {
  if (records <= state.tokens) return
  const rate = limits.pl_ingest_max_records_per_second
  const retryAfter = Math.max(1, Math.ceil((records - state.tokens) / rate))
  throw exceeded('rate_limit_exceeded', {
    limit: 'pl_ingest_max_records_per_second',
    state: bucketState(state, limits),
    current: capacityOf(limits) - Math.floor(state.tokens),
    retryAfter,
  })
}

function requireDayQuota(
  day: DaySums,
  limits: PipeLimits,
  records: number,
  bytes: number,
  nowMs: number,
): void {
  const retryAfter = Math.max(1, Math.ceil((startOfDay(nowMs) + dayMs - nowMs) / 1000))
  const require = (limit: keyof PipeLimits, max: number | null, current: number, more: number) => {
    if (max === null || current + more <= max) return
    const left = { limit: max, remaining: Math.max(0, max - current), resetSeconds: retryAfter }
    throw exceeded('daily_quota_exceeded', { limit, state: left, current, retryAfter })
  }
  require('pl_ingest_max_records_per_day', limits.pl_ingest_max_records_per_day, day.records, records)
  require('pl_ingest_max_bytes_per_day', limits.pl_ingest_max_bytes_per_day, day.bytes, bytes)
}

function bucketState(state: PipeState, limits: PipeLimits): LimitState {
  const rate = limits.pl_ingest_max_records_per_second
  return {
    limit: rate,
    remaining: Math.max(0, Math.floor(state.tokens)),
    resetSeconds: Math.ceil(Math.max(0, capacityOf(limits) - state.tokens) / rate),
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
