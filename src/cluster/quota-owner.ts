/**
 * The limits of the pipes that this node owns, for all nodes: one bucket and the sums of a day each, of which nodes take blocks.
 * Tokens are made here alone, so whatever nodes do, together they accept no more than rate × time + one bucket. What nodes hold
 * unused counts as in the bucket: a pause does not fill it beyond its capacity.
 *
 * A pipe that this node takes over begins with what is known of it, before anything is granted:
 *   the bucket   every other node is asked. Who decided before tells its state and decides no more; the others tell what they
 *                heard last. The least of it counts, filled up by the time that has passed. Nobody knows anything: it is full.
 *   the day      what the log holds (usage.ts), or what was heard of, whichever is more.
 *
 * What owners decide is told to all nodes 20 times a second. So what a killed owner took with it is at most what it granted
 * itself in its last 50 ms: by so much may the limit of that second, or day, be exceeded. Nodes that take over for a dead owner
 * begin with what they granted themselves meanwhile as a debt (quota-grants.ts).
 */
import type { QuotaAsk, QuotaGrant } from '../ingest/block-quota.ts'
import { capacityOf, type IngestLimits, refill, startOfDay } from '../ingest/quota.ts'
import { type DaySums, QuotaState } from '../ingest/quota-state.ts'
import { SharedCounters } from '../ingest/shared-counters.ts'
import { dayMs } from '../quantities.ts'

/** What is known of a pipe's limits, as it was `ageMs` ago. */
export interface KnownQuota {
  tokens: number
  ageMs: number
  dayStartMs: number
  day: DaySums
}

export interface QuotaPast {
  known: readonly KnownQuota[]
  /** What nodes have granted themselves without an owner. */
  debt: DaySums
}

export interface QuotaOwnerOptions {
  /** What the nodes know; those that do not answer in time know nothing. */
  askOthers(pipeId: string): Promise<QuotaPast>
  /** What the pipe has taken since then, by the log. */
  usedSince(pipeId: string, dayStartMs: number): Promise<DaySums>
  now(): number
}

interface Owned {
  state: QuotaState
  /** What threads of nodes hold unused, by their names. */
  held: Map<string, { records: number; untilMs: number }>
}

/** A thread that holds something says so at least once a second. */
const heldForMs = 3_000
/** Spare is granted while the bucket has more than this part of itself: the last tokens are for who needs them. */
const plenty = 0.1
/** And while so many times the spare is left of the day. */
const plentyOfDay = 100

export class QuotaOwner {
  readonly #options: QuotaOwnerOptions
  readonly #counters = new SharedCounters()
  readonly #owned = new Map<string, Owned>()
  readonly #starting = new Map<string, Promise<Owned>>()
  /** Since they were last told to others. */
  readonly #changed = new Set<string>()
  /** Being taken over, while another node began to decide. */
  readonly #yielded = new Set<string>()

  constructor(options: QuotaOwnerOptions) {
    this.#options = options
  }

  decides(pipeId: string): boolean {
    return this.#owned.has(pipeId)
  }

  /** `asker`: one thread of one node. `debt`: what its node has granted itself. */
  async grant(
    pipeId: string,
    limits: IngestLimits,
    asker: string,
    ask: QuotaAsk & { debt: DaySums },
  ): Promise<QuotaGrant> {
    const owned = this.#owned.get(pipeId) ?? (await this.#start(pipeId, limits))
    this.#changed.add(pipeId)
    return take(owned, limits, asker, ask, this.#options.now())
  }

  /** Another node decides from now on. Null: this one did not. */
  yield(pipeId: string): KnownQuota | null {
    if (this.#starting.has(pipeId)) this.#yielded.add(pipeId)
    const known = this.#known(pipeId)
    if (!this.#owned.delete(pipeId)) return null
    this.#changed.delete(pipeId)
    this.#counters.giveUp(pipeId)
    return known
  }

  /** What has changed since the last call, at most so many. */
  takeChanged(most: number): [pipeId: string, known: KnownQuota][] {
    const changed: [string, KnownQuota][] = []
    for (const pipeId of this.#changed) {
      if (changed.length === most) break
      this.#changed.delete(pipeId)
      const known = this.#known(pipeId)
      if (known !== null) changed.push([pipeId, known])
    }
    return changed
  }

  #known(pipeId: string): KnownQuota | null {
    const owned = this.#owned.get(pipeId)
    if (owned === undefined) return null
    const { state } = owned
    const nowMs = this.#options.now()
    const dayStartMs = startOfDay(nowMs)
    const ageMs = Math.max(0, nowMs - state.refilledMs)
    return { tokens: state.tokens, ageMs, dayStartMs, day: state.day(dayStartMs) }
  }

  #start(pipeId: string, limits: IngestLimits): Promise<Owned> {
    let starting = this.#starting.get(pipeId)
    if (starting === undefined) {
      starting = this.#begin(pipeId, limits).finally(() => this.#starting.delete(pipeId))
      this.#starting.set(pipeId, starting)
    }
    return starting
  }

  async #begin(pipeId: string, limits: IngestLimits): Promise<Owned> {
    this.#yielded.delete(pipeId)
    const dayStartMs = startOfDay(this.#options.now())
    const [{ known, debt }, used] = await Promise.all([
      this.#options.askOthers(pipeId),
      this.#options.usedSince(pipeId, dayStartMs),
    ])
    if (this.#yielded.delete(pipeId)) throw new Error(`another node decides the limits of pipe ${pipeId}`)
    const nowMs = this.#options.now()
    const rate = limits.pl_ingest_max_records_per_second / 1000
    const state = new QuotaState(this.#counters, this.#counters.entry(pipeId))
    const filled = known.map(({ tokens, ageMs }) => tokens + ageMs * rate)
    state.tokens = Math.min(capacityOf(limits), ...filled) - debt.records
    state.refilledMs = nowMs
    state.day(dayStartMs)
    const ofToday = known.filter((one) => one.dayStartMs === dayStartMs).map(({ day }) => day)
    const most = (of: 'records' | 'bytes') =>
      Math.max(used[of], Math.max(0, ...ofToday.map((day) => day[of])) + debt[of])
    state.add(dayStartMs, { records: most('records'), bytes: most('bytes') }, 1)
    const owned = { state, held: new Map() }
    this.#owned.set(pipeId, owned)
    return owned
  }
}

function take(
  { state, held }: Owned,
  limits: IngestLimits,
  asker: string,
  { need, spare, heldRecords, returned, counted, debt }: QuotaAsk & { debt: DaySums },
  nowMs: number,
): QuotaGrant {
  const dayStartMs = startOfDay(nowMs)
  state.day(dayStartMs)
  held.delete(asker)
  refill(state, limits, nowMs, Math.max(0, capacityOf(limits) - heldBy(held, nowMs) - heldRecords))
  state.tokens += returned.records - debt.records
  state.add(returned.dayStartMs, returned, -1)
  if (counted.dayStartMs === dayStartMs) state.add(dayStartMs, counted, 1)
  state.add(dayStartMs, debt, 1)
  const day = state.day(dayStartMs)
  const left = {
    records: Math.max(0, leftOf(limits.pl_ingest_max_records_per_day, day.records)),
    bytes: Math.max(0, leftOf(limits.pl_ingest_max_bytes_per_day, day.bytes)),
  }
  const hasPlenty =
    state.tokens > plenty * capacityOf(limits) &&
    left.records > plentyOfDay * spare.records &&
    left.bytes > plentyOfDay * spare.bytes
  const wanted = hasPlenty ? { records: need.records + spare.records, bytes: need.bytes + spare.bytes } : need
  const granted = {
    records: Math.min(wanted.records, Math.max(0, Math.floor(state.tokens)), left.records),
    bytes: Math.min(wanted.bytes, left.bytes),
  }
  state.tokens -= granted.records
  state.add(dayStartMs, granted, 1)
  const unused = heldRecords + Math.max(0, granted.records - need.records)
  if (unused > 0) held.set(asker, { records: unused, untilMs: nowMs + heldForMs })
  const dayLeftMs = dayStartMs + dayMs - nowMs
  return { ...granted, tokens: state.tokens, day: { ...day }, dayStartMs, dayLeftMs }
}

function leftOf(max: number | null, used: number): number {
  return max === null ? Number.MAX_SAFE_INTEGER : max - used
}

function heldBy(held: Owned['held'], nowMs: number): number {
  let records = 0
  for (const [asker, one] of held) {
    if (one.untilMs < nowMs) held.delete(asker)
    else records += one.records
  }
  return records
}
