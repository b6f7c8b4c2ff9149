/**
 * Quotas of a cluster as main of each node has them: what threads of ingest ask for goes to the pipe's owner, which decides
 * (quota-owner.ts), here or on another node.
 *
 * No owner for the moment: the node goes on with its share, rate ÷ nodes from then on without a burst, and of what is left of
 * the day its part. All nodes together stay within the limit; what each has granted itself is a debt that the next owner is
 * told of before it grants anything more to that node.
 *
 *   owned ──no answer──▶ on its share ──asked again every half second──▶ owned, and the debt is told
 */
import { isUuid } from '../contract/uuid.ts'
import type { QuotaAsk, QuotaGrant } from '../ingest/block-quota.ts'
import { type IngestLimits, startOfDay } from '../ingest/quota.ts'
import type { DaySums } from '../ingest/quota-state.ts'
import type { Logger } from '../log.ts'
import type { NatsConnection } from '../nats/connect.ts'
import { dayMs } from '../quantities.ts'
import type { NodeLink } from './node-link.ts'
import { NodeRequestError } from './node-requests.ts'
import { badRequest, RefusedRequestError, type ServedMethod } from './node-server.ts'
import { decode, encode, parsed, limits as protocolLimits } from './protocol.ts'
import { type KnownQuota, QuotaOwner, type QuotaPast } from './quota-owner.ts'

export interface QuotaGrantsOptions {
  link: NodeLink
  nats: NatsConnection
  cluster: string
  owners(freshSinceMs?: number): Promise<ReadonlyMap<string, string>>
  /** The ids of all nodes that are valid, this one included. */
  nodeIds(): Promise<readonly string[]>
  /** What the pipe has taken since then, by the log: as of now, not as of the last roll-up. */
  usedSince(pipeId: string, dayStartMs: number): Promise<DaySums>
  log: Logger
  now?(): number
}

interface Orphan {
  tokens: number
  filledMs: number
  askAgainMs: number
  /** Of the day, granted from its share. */
  used: DaySums & { dayStartMs: number }
  /** Not told to an owner yet. */
  debt: DaySums
}

/** An owner that does not answer in that time is none; it says that it works when it takes longer. */
const ownerSilenceMs = 1_000
const othersSilenceMs = 700
const askAgainMs = 500
const tellEveryMs = 50
const toldAtOnce = 1_000
const knownPipes = 100_000
const nodesKeptMs = 5_000

export class QuotaGrants {
  readonly #options: QuotaGrantsOptions
  readonly #owner: QuotaOwner
  readonly #now: () => number
  readonly #orphans = new Map<string, Orphan>()
  /** What owners last said, of pipes of any node, and when. */
  readonly #known = new Map<string, KnownQuota & { heardMs: number }>()
  #nodes = 1
  #nodesAskedMs = Number.NEGATIVE_INFINITY
  readonly #timer: NodeJS.Timeout
  readonly #unsubscribe: () => void

  constructor(options: QuotaGrantsOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    const { link, nats } = options
    this.#owner = new QuotaOwner({
      askOthers: (pipeId) => this.#askOthers(pipeId),
      usedSince: options.usedSince,
      now: this.#now,
    })
    link.server.serve(this.#methods())
    const subscription = nats.subscribe(this.#subject, {
      callback: (error, message) => {
        if (error === null) this.#hear(message.data)
      },
    })
    this.#unsubscribe = () => subscription.unsubscribe()
    this.#timer = setInterval(() => this.#tell(), tellEveryMs)
    this.#timer.unref()
  }

  /** For one thread of this node; does not reject. */
  asker(thread: number): (pipeId: string, limits: IngestLimits, ask: QuotaAsk) => Promise<QuotaGrant> {
    const name = `${this.#nodeId}/${thread}`
    return (pipeId, limits, ask) => this.#ask(name, pipeId, limits, ask)
  }

  /** The pipe was deleted. */
  forget(pipeId: string): void {
    this.#owner.yield(pipeId)
    this.#orphans.delete(pipeId)
    this.#known.delete(pipeId)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#tell()
    this.#unsubscribe()
  }

  get #nodeId(): string {
    return this.#options.link.requests.nodeId
  }

  get #subject(): string {
    return `pipectl.${this.#options.cluster}.quotas`
  }

  async #ask(asker: string, pipeId: string, limits: IngestLimits, ask: QuotaAsk): Promise<QuotaGrant> {
    const orphan = this.#orphans.get(pipeId)
    if (orphan !== undefined && this.#now() < orphan.askAgainMs) return await this.#share(pipeId, limits, ask)
    // The others go on while one asks.
    if (orphan !== undefined) orphan.askAgainMs = this.#now() + ownerSilenceMs + askAgainMs
    const debt = orphan?.debt ?? { records: 0, bytes: 0 }
    if (orphan !== undefined) orphan.debt = { records: 0, bytes: 0 }
    try {
      const grant = await this.#askOwner(asker, pipeId, limits, { ...ask, debt })
      if (orphan !== undefined && hasNone(orphan.debt)) this.#orphans.delete(pipeId)
      void this.#nodeCount()
      this.#keepKnown(pipeId, { ...grant, day: sum(grant.day, grant), ageMs: 0 })
      return grant
    } catch (error) {
      // Of an answer that was lost it is told twice, which errs on the safe side.
      if (orphan !== undefined) orphan.debt = sum(orphan.debt, debt)
      this.#options.log.debug({ pipe_id: pipeId, err: error }, 'quota.no_owner')
      return await this.#share(pipeId, limits, ask)
    }
  }

  async #askOwner(
    asker: string,
    pipeId: string,
    limits: IngestLimits,
    ask: QuotaAsk & { debt: DaySums },
  ): Promise<QuotaGrant> {
    let node = await this.#ownerOf(pipeId)
    for (let looks = 0; ; looks++) {
      if (node === undefined) throw new NodeRequestError('not_owner', `no node owns pipe ${pipeId}`)
      if (node === this.#nodeId) return await this.#grantHere(pipeId, limits, asker, ask)
      try {
        const { requests } = this.#options.link
        const options = { silenceMs: ownerSilenceMs }
        const { value } = await requests.request(node, 'quota.ask', [asker, pipeId, limits, ask], options)
        return grantOf(value)
      } catch (error) {
        const isUndone = error instanceof NodeRequestError && error.isUndone
        if (looks > 0 || !isUndone) throw error
        node = (await this.#options.owners(performance.now())).get(pipeId)
      }
    }
  }

  /** A pipe that was made a moment ago has an owner that what is cached does not know. */
  async #ownerOf(pipeId: string): Promise<string | undefined> {
    const known = (await this.#options.owners()).get(pipeId)
    return known ?? (await this.#options.owners(performance.now())).get(pipeId)
  }

  async #grantHere(
    pipeId: string,
    limits: IngestLimits,
    asker: string,
    ask: QuotaAsk & { debt: DaySums },
  ): Promise<QuotaGrant> {
    if (!this.#owner.decides(pipeId)) {
      // What is cached of owners may be older than the question that took the pipe from here.
      const node = (await this.#options.owners(performance.now())).get(pipeId)
      if (node !== this.#nodeId) throw new RefusedRequestError('not_owner', `pipe ${pipeId} has moved`)
    }
    return await this.#owner.grant(pipeId, limits, asker, ask)
  }

  #methods(): Record<string, ServedMethod> {
    return {
      'quota.ask': async ([asker, pipeId, limits, ask], { from }) => {
        if (typeof asker !== 'string' || !asker.startsWith(`${from}/`) || asker.length > 100)
          throw badRequest()
        if (typeof pipeId !== 'string' || !isUuid(pipeId)) throw badRequest()
        const node = await this.#ownerOf(pipeId)
        if (node !== this.#nodeId && !this.#owner.decides(pipeId))
          throw new RefusedRequestError('not_owner', `pipe ${pipeId} is another node's`)
        return { value: await this.#grantHere(pipeId, limitsOf(limits), asker, askOf(ask)) }
      },
      /** Who asks decides from now on. */
      'quota.yield': async ([pipeId]) => {
        if (typeof pipeId !== 'string' || !isUuid(pipeId)) throw badRequest()
        return { value: this.#pastOf(pipeId, this.#owner.yield(pipeId)) }
      },
    }
  }

  async #askOthers(pipeId: string): Promise<QuotaPast> {
    const { link, nodeIds } = this.#options
    const others = (await nodeIds()).filter((nodeId) => nodeId !== this.#nodeId)
    const asked = others.map(async (nodeId) => {
      const options = { silenceMs: othersSilenceMs }
      const { value } = await link.requests.request(nodeId, 'quota.yield', [pipeId], options)
      return pastOf(value)
    })
    const pasts = [this.#pastOf(pipeId, null)]
    for (const answer of await Promise.allSettled(asked))
      if (answer.status === 'fulfilled') pasts.push(answer.value)
    return {
      known: pasts.flatMap(({ known }) => known),
      debt: pasts.map(({ debt }) => debt).reduce(sum),
    }
  }

  /** Told to who decides from now on. What this node granted itself is told once. */
  #pastOf(pipeId: string, decided: KnownQuota | null): QuotaPast {
    const known = decided ?? this.#heard(pipeId)
    const orphan = this.#orphans.get(pipeId)
    const debt = orphan?.debt ?? { records: 0, bytes: 0 }
    if (orphan !== undefined) orphan.debt = { records: 0, bytes: 0 }
    return { known: known === null ? [] : [known], debt }
  }

  #heard(pipeId: string): KnownQuota | null {
    const known = this.#known.get(pipeId)
    return known === undefined
      ? null
      : { ...known, ageMs: known.ageMs + Math.max(0, this.#now() - known.heardMs) }
  }

  #keepKnown(pipeId: string, known: KnownQuota): void {
    if (this.#known.size >= knownPipes) this.#known.clear()
    const { tokens, ageMs, dayStartMs, day } = known
    this.#known.set(pipeId, { tokens, ageMs, dayStartMs, day, heardMs: this.#now() })
  }

  /** Of what is needed, as far as the share goes. */
  async #share(pipeId: string, limits: IngestLimits, { need }: QuotaAsk): Promise<QuotaGrant> {
    const nodes = await this.#nodeCount()
    const nowMs = this.#now()
    const dayStartMs = startOfDay(nowMs)
    const orphan = this.#orphan(pipeId, nowMs, dayStartMs)
    const rate = limits.pl_ingest_max_records_per_second / nodes
    const filled = (Math.max(0, nowMs - orphan.filledMs) * rate) / 1000
    orphan.tokens = Math.min(rate, orphan.tokens + filled)
    orphan.filledMs = nowMs
    const day = await this.#dayOf(pipeId, dayStartMs)
    const leftOf = (max: number | null, before: number, used: number) =>
      max === null ? Number.MAX_SAFE_INTEGER : Math.max(0, Math.floor((max - before) / nodes) - used)
    const { used } = orphan
    const granted = {
      records: Math.min(
        need.records,
        Math.floor(orphan.tokens),
        leftOf(limits.pl_ingest_max_records_per_day, day.records, used.records),
      ),
      bytes: Math.min(need.bytes, leftOf(limits.pl_ingest_max_bytes_per_day, day.bytes, used.bytes)),
    }
    orphan.tokens -= granted.records
    orphan.used = { ...sum(used, granted), dayStartMs }
    orphan.debt = sum(orphan.debt, granted)
    const tokens = orphan.tokens
    return { ...granted, tokens, day: sum(day, used), dayStartMs, dayLeftMs: dayStartMs + dayMs - nowMs }
  }

  /** As it was last known, while the database does not answer either. */
  async #nodeCount(): Promise<number> {
    if (performance.now() - this.#nodesAskedMs > nodesKeptMs) {
      this.#nodesAskedMs = performance.now()
      const ids = await this.#options.nodeIds().catch(() => null)
      if (ids !== null) this.#nodes = Math.max(1, ids.length)
    }
    return this.#nodes
  }

  #orphan(pipeId: string, nowMs: number, dayStartMs: number): Orphan {
    let orphan = this.#orphans.get(pipeId)
    if (orphan === undefined) {
      const none = { records: 0, bytes: 0 }
      orphan = {
        ...{ tokens: 0, filledMs: nowMs, askAgainMs: nowMs + askAgainMs },
        ...{ used: { ...none, dayStartMs }, debt: none },
      }
      this.#orphans.set(pipeId, orphan)
    }
    if (orphan.used.dayStartMs !== dayStartMs) orphan.used = { records: 0, bytes: 0, dayStartMs }
    if (orphan.askAgainMs <= nowMs) orphan.askAgainMs = nowMs + askAgainMs
    return orphan
  }

  /** What the pipe had of the day when its owner was lost. */
  async #dayOf(pipeId: string, dayStartMs: number): Promise<DaySums> {
    const known = this.#known.get(pipeId)
    if (known?.dayStartMs === dayStartMs) return known.day
    const used = await this.#options.usedSince(pipeId, dayStartMs).catch(() => null)
    // Nobody knows: nothing is left, rather than everything.
    return used ?? { records: Number.MAX_SAFE_INTEGER, bytes: Number.MAX_SAFE_INTEGER }
  }

  #tell(): void {
    const { nats } = this.#options
    for (;;) {
      const pipes = this.#owner.takeChanged(toldAtOnce)
      if (pipes.length === 0) return
      try {
        nats.publish(this.#subject, encode({ from: this.#nodeId }, Buffer.from(JSON.stringify(pipes))))
      } catch {
        return
      }
    }
  }

  #hear(data: Uint8Array): void {
    const decoded = decode(data)
    if (decoded === null || decoded.head.from === this.#nodeId) return
    if (decoded.body.byteLength > protocolLimits.requestBytes) return
    const pipes = parsed(Buffer.from(decoded.body).toString('utf8'))
    if (!Array.isArray(pipes) || pipes.length > toldAtOnce) return
    for (const one of pipes) {
      const [pipeId, known] = Array.isArray(one) ? one : []
      if (typeof pipeId !== 'string' || !isUuid(pipeId)) continue
      try {
        this.#keepKnown(pipeId, knownOf(known))
      } catch {
        // Of another version, or a stranger's.
      }
    }
  }
}

function hasNone({ records, bytes }: DaySums): boolean {
  return records === 0 && bytes === 0
}

function sum(one: DaySums, other: DaySums): DaySums {
  return { records: one.records + other.records, bytes: one.bytes + other.bytes }
}

/** Sums of a day are below it. */
const mostOfAny = Number.MAX_SAFE_INTEGER / 4

function numberOf(value: unknown, least = 0): number {
  if (typeof value !== 'number' || !(value >= least) || value > mostOfAny) throw badRequest()
  return value
}

function membersOf(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw badRequest()
  return value as Record<string, unknown>
}

function sumsOf(value: unknown): DaySums {
  const { records, bytes } = membersOf(value)
  return { records: numberOf(records), bytes: numberOf(bytes) }
}

function sumsOfDay(value: unknown): DaySums & { dayStartMs: number } {
  return { ...sumsOf(value), dayStartMs: numberOf(membersOf(value).dayStartMs) }
}

function askOf(value: unknown): QuotaAsk & { debt: DaySums } {
  const { need, spare, heldRecords, returned, counted, debt } = membersOf(value)
  return {
    ...{ need: sumsOf(need), spare: sumsOf(spare), heldRecords: numberOf(heldRecords) },
    ...{ returned: sumsOfDay(returned), counted: sumsOfDay(counted), debt: sumsOf(debt) },
  }
}

function grantOf(value: unknown): QuotaGrant {
  const { tokens, day, dayStartMs, dayLeftMs } = membersOf(value)
  return {
    ...sumsOf(value),
    ...{ tokens: numberOf(tokens, -mostOfAny), day: sumsOf(day) },
    ...{ dayStartMs: numberOf(dayStartMs), dayLeftMs: numberOf(dayLeftMs) },
  }
}

function knownOf(value: unknown): KnownQuota {
  const { tokens, ageMs, dayStartMs, day } = membersOf(value)
  return {
    ...{ tokens: numberOf(tokens, -mostOfAny), ageMs: numberOf(ageMs) },
    ...{ dayStartMs: numberOf(dayStartMs), day: sumsOf(day) },
  }
}

function pastOf(value: unknown): QuotaPast {
  const { known, debt } = membersOf(value)
  if (!Array.isArray(known) || known.length > 1) throw badRequest()
  return { known: known.map(knownOf), debt: sumsOf(debt) }
}

function limitsOf(value: unknown): IngestLimits {
  const given = membersOf(value)
  const bytesPerDay = given.pl_ingest_max_bytes_per_day
  return {
    pl_ingest_max_records_per_second: numberOf(given.pl_ingest_max_records_per_second, 1),
    pl_ingest_max_records_per_request: numberOf(given.pl_ingest_max_records_per_request, 1),
    pl_ingest_max_records_per_day: numberOf(given.pl_ingest_max_records_per_day, 1),
    pl_ingest_max_bytes_per_day: bytesPerDay === null ? null : numberOf(bytesPerDay, 1),
  }
}
