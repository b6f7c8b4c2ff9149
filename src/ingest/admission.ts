/**
 * Admits a request: UUID → pipe → key and Origin, and later its records: rate and daily quotas, at the end of this file.
 * Each check throws the ApiError of its rule. The format of the body is read from the headers as well.
 */
import { ApiError, type ErrorCode } from '../contract/errors.ts'
import { normaliseOrigin, type PipeLimits } from '../contract/pipe.ts'
import type { Principal } from '../contract/principal.ts'
import { isUuid } from '../contract/uuid.ts'
import type { Directory, DirectoryPipe } from '../metadata/directory-source.ts'
import { dayMs } from '../platform/quantities.ts'
import type { BodyEncoding, BodyFormat, LimitState } from './body-source.ts'
import type { Authenticate } from './directory/directory-cache.ts'
import { type DaySums, QuotaState, SharedCounters } from './shared-counters.ts'

/** Only an active pipe accepts records (docs/dev/contract.md#pipes). */
export function findPipe(directory: Directory, pipeId: string): DirectoryPipe {
  // Most clients use this spelling, and an id in the directory is a valid UUID.
  let entry = directory.pipe(pipeId)
  if (entry === undefined) {
    if (!isUuid(pipeId)) throw new ApiError('invalid_pipe_id')
    entry = directory.pipe(pipeId.toLowerCase())
  }
  if (entry === undefined || entry.pipe.pipe_status !== 'active') {
    throw new ApiError('pipe_not_found', { message: 'No active pipe with this id.' })
  }
  return entry
}

/** Checks key and Origin. Returns a promise only when the directory has to look up the key. */
export function requireSender(
  entry: DirectoryPipe,
  { authorization, origin }: { authorization: string; origin: string },
  authenticate: Authenticate,
): Promise<void> | null {
  if (entry.pipe.pipe_api_key_required) {
    const found = authenticate(authorization)
    if (found instanceof Promise) return found.then((late) => requireKeyAndOrigin(entry, late, origin))
    requireKeyAndOrigin(entry, found, origin)
  } else requireOrigin(entry, origin)
  return null
}

function requireKeyAndOrigin(entry: DirectoryPipe, principal: Principal | undefined, origin: string): void {
  if (principal?.workspaceId !== entry.workspaceId) throw new ApiError('unauthorized')
  if (!principal.may.ingest) throw new ApiError('forbidden', lacksIngest)
  if (!isForPipe(principal, entry.pipe.pipe_id)) throw new ApiError('forbidden', otherPipes)
  requireOrigin(entry, origin)
}

/** True if the principal can access the pipe. `pipeId` is in lower case. */
export function isForPipe({ pipeIds }: Pick<Principal, 'pipeIds'>, pipeId: string): boolean {
  return pipeIds === null || pipeIds.has(pipeId)
}

const lacksIngest = { message: 'This key lacks the scope ingest.' }
const otherPipes = { message: 'This key is limited to other pipes: use a key for this pipe.' }

function requireOrigin(entry: DirectoryPipe, origin: string): void {
  const { error } = checkOrigin(entry, origin)
  switch (error) {
    case null:
      return
    case 'unauthorized':
      throw new ApiError(error, {
        message: 'This pipe accepts browser requests only: an Origin header is required.',
      })
    case 'forbidden':
      throw new ApiError(error, {
        message: `The origin ${JSON.stringify(origin)} is not allowed for this pipe.`,
      })
    default:
      throw new ApiError(error)
  }
}

export interface OriginCheck {
  /** The value that `Access-Control-Allow-Origin` can echo; null for none. */
  allowOrigin: string | null
  /** Why the Origin is rejected; null when it is accepted. */
  error: ErrorCode | null
}

const standardOrigin = /^https?:\/\/(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i
/** Other text is no origin and must not be echoed. */
const visibleText = /^[\x21-\x7e]+$/

/** docs/dev/contract.md#ingest-authentication. `origin` is the header as sent, '' when absent. */
export function checkOrigin(entry: DirectoryPipe, origin: string): OriginCheck {
  return entry.pipe.pipe_api_key_required ? withKey(entry, origin) : withoutKey(entry, origin)
}

/** Rule 6: the key protects the pipe. An Origin is checked only when the pipe has a list of origins. */
function withKey(entry: DirectoryPipe, origin: string): OriginCheck {
  if (origin === '') return { allowOrigin: null, error: null }
  const isOpen = !entry.pipe.pipe_allow_any_browser_origin && entry.allowedOrigins.size === 0
  // Includes `null` and the schemes of browser extensions (docs/dev/contract.md#ingest-authentication).
  if (isOpen) return { allowOrigin: visibleText.test(origin) ? origin : null, error: null }
  return isAllowed(entry, origin) ? allowed(origin) : forbidden
}

/** Rule 7: only the Origin protects the pipe. */
function withoutKey(entry: DirectoryPipe, origin: string): OriginCheck {
  if (origin === '') return { allowOrigin: null, error: 'unauthorized' }
  if (!entry.pipe.pipe_allow_any_browser_origin && entry.allowedOrigins.size === 0)
    return { allowOrigin: null, error: 'configuration_error' }
  return isAllowed(entry, origin) ? allowed(origin) : forbidden
}

function isAllowed(entry: DirectoryPipe, origin: string): boolean {
  if (entry.pipe.pipe_allow_any_browser_origin) return standardOrigin.test(origin)
  return entry.allowedOrigins.has(normaliseOrigin(origin))
}

const forbidden: OriginCheck = { allowOrigin: null, error: 'forbidden' }

function allowed(origin: string): OriginCheck {
  return { allowOrigin: origin, error: null }
}

/**
 * Throws `invalid_payload` for anything but JSON and NDJSON in UTF-8. `text/plain` is treated as JSON: a browser sends
 * it to another origin without a preflight, so that `navigator.sendBeacon` works. This does not weaken the protection,
 * because a preflight restrains only browsers: the Origin of the request itself is checked, and neither cookies nor
 * client addresses grant access. The two other types without a preflight are those of forms.
 */
export function bodyFormat(contentType: string): BodyFormat {
  if (contentType === 'application/json') return 'json'
  const [type, ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase())
  for (const parameter of parameters) {
    const charset = /^charset\s*=\s*"?([^"]*)"?$/.exec(parameter)?.[1]
    if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
      throw new ApiError('invalid_payload', { message: `The body must be UTF-8, not ${charset}.` })
    }
  }
  if (type === 'application/json' || type === 'text/plain') return 'json'
  if (type === 'application/x-ndjson') return 'ndjson'
  throw new ApiError('invalid_payload', {
    message:
      'Content-Type must be application/json (or text/plain with JSON in it, or application/x-ndjson, one object per line).',
  })
}

/** Throws `unsupported_encoding`. */
export function bodyEncoding(contentEncoding: string): BodyEncoding {
  switch (contentEncoding.trim().toLowerCase()) {
    case '':
    case 'identity':
      return 'identity'
    case 'gzip':
    case 'x-gzip':
      return 'gzip'
    case 'deflate':
      return 'deflate'
    case 'br':
      return 'br'
    default:
      throw new ApiError('unsupported_encoding')
  }
}

/**
 * Rate limit and daily quotas of a pipe (docs/dev/contract.md#quotas): a token bucket per second and quotas per UTC
 * day, all-or-nothing, only for pipes with a limits row. Bytes are those of the stored body (after enrichment).
 *
 * The bucket holds max(rate, records per request), so that the largest allowed request can pass. The day's sums start
 * from metadata's counts of the day and include records accepted without a limits row. Records that are
 * certainly not stored are refunded.
 *
 * Quota days follow the wall clock; the last three are kept so that a clock step does not reset them. The state is in
 * memory that the ingest threads share, so that the limits hold for all of them together.
 */
const reorderedMs = 1_000

/** Reserved amounts, to be refunded when the append fails. */
export interface Reservation {
  pipeId: string
  amount: DaySums
  /** Identifies the sums that were used; a refund to other sums is ignored. */
  day: number
  state: LimitState
}

/** Async, so that the machines of a cluster can share a quota. */
export interface Quota {
  /** Rejects with `rate_limit_exceeded` or `daily_quota_exceeded`; then nothing is taken. */
  reserve(pipeId: string, limits: PipeLimits, amount: DaySums, nowMs: number): Promise<Reservation>
  refund(reserved: Reservation): void
  /** Counts records accepted without a limits row, in case the pipe gets one on the same day. */
  count(pipeId: string, amount: DaySums, nowMs: number): void
}

/** The limits that ingest applies. */
export type IngestLimits = Pick<
  PipeLimits,
  | 'pl_ingest_max_records_per_request'
  | 'pl_ingest_max_records_per_second'
  | 'pl_ingest_max_records_per_day'
  | 'pl_ingest_max_bytes_per_day'
>

interface Bucket {
  tokens: number
  /** The part of the rate for this node of a cluster. Default: the whole rate. */
  share?: number
  capacity?: number
}

/**
 * `today`: the usage of each pipe since the start of `nowMs`'s UTC day. The thread that created the counters passes it
 * once. All threads with the same counters share the quotas.
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
      return { pipeId, amount, day: dayStartMs, state: bucketState(bucket, limits) }
    },
    refund: ({ pipeId, amount, day }) => {
      const entry = counters.entry(pipeId)
      const state = new QuotaState(counters, entry)
      counters.locked(entry, () => {
        // Can exceed the bucket's capacity for a moment: the next refill limits it.
        if (state.hasBucket) state.tokens += amount.records
        state.add(day, amount, -1)
      })
    },
    count: (pipeId, amount, atMs) => count(pipeId, amount, startOfDay(atMs)),
  }
}

/** Called under the entry's lock. Takes the whole amount or nothing. */
function take(state: QuotaState, limits: IngestLimits, amount: DaySums, atMs: number) {
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

export function capacityOf(limits: IngestLimits): number {
  return Math.max(limits.pl_ingest_max_records_per_second, limits.pl_ingest_max_records_per_request)
}

/**
 * A clock that was set back neither adds nor removes tokens. A step below `reorderedMs` comes from two threads that read
 * the clock in the other order: setting the bucket's time back would count the time in between twice.
 */
function refill(
  state: Pick<QuotaState, 'tokens' | 'refilledMs' | 'hasBucket'>,
  limits: IngestLimits,
  nowMs: number,
): void {
  const capacity = capacityOf(limits)

  if (!state.hasBucket) {
    state.tokens = capacity
    state.refilledMs = nowMs
    return
  }
  const elapsedMs = nowMs - state.refilledMs
  const added = (Math.max(0, elapsedMs) * limits.pl_ingest_max_records_per_second) / 1000
  state.tokens = Math.min(capacity, state.tokens + added)
  if (elapsedMs > 0 || elapsedMs < -reorderedMs) state.refilledMs = nowMs
}

function requireRate(bucket: Bucket, limits: IngestLimits, records: number): void {
  if (records > bucket.tokens) throw rateExceeded(bucket, limits, records)
}

export function rateExceeded(bucket: Bucket, limits: IngestLimits, records: number): ApiError {
  const { tokens, share = 1, capacity = capacityOf(limits) } = bucket
  const rate = limits.pl_ingest_max_records_per_second * share
  const retryAfter = Math.max(1, Math.ceil((Math.min(records, capacity) - tokens) / rate))
  return exceeded('rate_limit_exceeded', {
    limit: 'pl_ingest_max_records_per_second',
    state: bucketState(bucket, limits),
    current: Math.ceil(capacity - Math.floor(tokens)),
    retryAfter,
  })
}

type DayLimit = readonly [limit: keyof PipeLimits, max: number | null, current: number, more: number]

function exceededDayLimit(day: DaySums, limits: IngestLimits, { records, bytes }: DaySums): DayLimit | null {
  const dayLimits: DayLimit[] = [
    ['pl_ingest_max_records_per_day', limits.pl_ingest_max_records_per_day, day.records, records],
    ['pl_ingest_max_bytes_per_day', limits.pl_ingest_max_bytes_per_day, day.bytes, bytes],
  ]
  return dayLimits.find(([, max, current, more]) => max !== null && current + more > max) ?? null
}

function requireDayQuota(day: DaySums, limits: IngestLimits, amount: DaySums, nowMs: number): void {
  const error = dayExceeded(day, limits, amount, startOfDay(nowMs) + dayMs - nowMs)
  if (error !== null) throw error
}

/** `leftMs` is the time until the day ends. Null when the quota is not exceeded. */
export function dayExceeded(
  day: DaySums,
  limits: IngestLimits,
  amount: DaySums,
  leftMs: number,
): ApiError | null {
  const exceededLimit = exceededDayLimit(day, limits, amount)
  if (exceededLimit === null) return null
  const [limit, max, current] = exceededLimit
  const retryAfter = Math.max(1, Math.ceil(leftMs / 1000))
  const left = { limit: max ?? 0, remaining: Math.max(0, (max ?? 0) - current), resetSeconds: retryAfter }
  return exceeded('daily_quota_exceeded', { limit, state: left, current, retryAfter })
}

export function bucketState(bucket: Bucket, limits: IngestLimits): LimitState {
  const { tokens, share = 1, capacity = capacityOf(limits) } = bucket
  const rate = limits.pl_ingest_max_records_per_second
  return {
    limit: rate,
    remaining: Math.max(0, Math.floor(tokens)),
    resetSeconds: Math.ceil(Math.max(0, capacity - tokens) / (rate * share)),
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

export function startOfDay(ms: number): number {
  return ms - (ms % dayMs)
}
