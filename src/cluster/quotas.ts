/**
 * Limits of pipes, managed by main of each node for its ingest threads. It reserves blocks of the daily quotas in the
 * database, and negotiates each node's share of a rate there too. Nodes do not exchange messages about limits.
 *
 *   day    a block for waiting requests, and for the next seconds while much is left; refilled before it is used up, and returned
 *          when it is unused for some seconds, when the pipe changes, and at a stop
 *   rate   a node whose clients need little keeps a small share; one whose clients need more reports it every second, and
 *          gets its part of the rest. While demand changes, the shares add up to more than one for a second or two
 *
 * Without the database, shares stay as they are and blocks are used up. A request that needs a new block waits for some
 * seconds and then gets an `unavailable` error. By then the node's lease has expired too.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { capacityOf, type IngestLimits } from '../ingest/admission.ts'
import { type AskedQuota, PipeAllowance } from '../ingest/cluster-quota.ts'
import type { DaySums, SharedCounters } from '../ingest/shared-counters.ts'
import type { ClusterStore, QuotaAsk, QuotaBlock } from '../metadata/cluster-store.ts'
import { endsWithin } from '../platform/deadline.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'
import { Semaphore } from '../platform/semaphore.ts'
import { sharedMs } from '../platform/shared-clock.ts'

export interface ClusterQuotasOptions {
  store: ClusterStore['quotas']
  nodeId: string
  /** Shared with the ingest threads. */
  counters: SharedCounters
  /** Resolves when usage includes everything appended to the pipe so far. */
  countUsage(pipeId: string): Promise<void>
  log: Logger
}

interface Waiting {
  limits: IngestLimits
  amount: DaySums
  untilMs: number
  resolve(outcome: AskedQuota): void
}

interface Pipe {
  limits: IngestLimits
  ledgerId: string | null
  ledger: number
  /** Increases when the pipe changes: earlier blocks are returned. */
  generation: number
  waiting: Waiting[]
  isServed: boolean
  /** `asked` of the allowance at the last check, and the demand derived from it, at most the rate. */
  asked: number
  perSecond: number
  /** The demand that is reported to the other nodes. */
  demand: number
  bytesEach: number
  usedMs: number
  /** Until when this node reports the demand of its clients. */
  namedUntilMs: number
}

const lookEveryMs = 500
const shareEveryMs = 1_000
const nodesKnownMs = 5_000
const pruneEveryMs = 60_000
/** The fraction of an equal share that a node has without demand, and keeps when others need more. */
const quietPart = 0.1
const namedForMs = 3_000
/** A block covers the time of a database restart. */
const blockSeconds = 4
const idleMs = 5_000
const forgottenAfterMs = 3_600_000
/** Checked again after this time, because another node can return a block, or a limit can be raised. */
const exhaustedForMs = 1_000
const waitMs = 5_000
const againMs = 250
/** Below the deadline of the step in shutdown-steps.ts. */
const closeMs = 1_500
/** Main has four connections for all of its work. */
const statementsAtOnce = 2

export class ClusterQuotas {
  readonly #options: ClusterQuotasOptions
  readonly #pipes = new Map<string, Pipe>()
  readonly #turns = new Semaphore(statementsAtOnce)
  readonly #timer: NodeJS.Timeout
  #lastLedger = 0
  #nodes: number | null = null
  #nodesMs = Number.NEGATIVE_INFINITY
  /** Until then demand counts as changing, and shares are settled at every check. */
  #movingUntilMs = 0
  #sharedMs = Number.NEGATIVE_INFINITY
  #prunedMs = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | null = null

  constructor(options: ClusterQuotasOptions) {
    this.#options = options
    this.#timer = setInterval(() => {
      this.#endWaits()
      this.#looking ??= this.#look()
        .catch((err) => this.#failed(err))
        .finally(() => {
          this.#looking = null
        })
    }, lookEveryMs)
    this.#timer.unref()
  }

  /** For a request that the allowance in shared memory does not cover. Never rejects. */
  reserve(pipeId: string, limits: IngestLimits, amount: DaySums): Promise<AskedQuota> {
    const pipe = this.#pipes.get(pipeId) ?? this.#open(pipeId, limits)
    pipe.limits = limits
    return new Promise((resolve) => {
      pipe.waiting.push({ limits, amount, untilMs: sharedMs() + waitMs, resolve })
      void this.#serve(pipeId, pipe)
    })
  }

  /** The pipe or its limits have changed: returns what was reserved under the old limits. */
  async changed(pipeId: string): Promise<void> {
    const pipe = this.#pipes.get(pipeId)
    if (pipe === undefined) return
    pipe.generation += 1
    await this.#returnBlock(pipeId, pipe)
  }

  /** The pipe was deleted. */
  forget(pipeId: string): void {
    this.#pipes.delete(pipeId)
  }

  /** Stops all work. */
  end(): void {
    clearInterval(this.#timer)
  }

  /** Returns all blocks. A database that does not respond is not waited for; the effect is that of a kill. */
  async close(): Promise<void> {
    this.end()
    const { log } = this.#options
    if (!(await endsWithin(closeMs, this.#returnAllBlocks())))
      log.warn({ limit_ms: closeMs }, 'quotas.not_returned')
  }

  async #returnAllBlocks(): Promise<void> {
    await this.#looking
    await Promise.all([...this.#pipes].map(([pipeId, pipe]) => this.#returnBlock(pipeId, pipe)))
  }

  #open(pipeId: string, limits: IngestLimits): Pipe {
    const pipe: Pipe = {
      limits,
      ledgerId: null,
      ledger: 0,
      generation: 0,
      waiting: [],
      isServed: false,
      asked: this.#allowance(pipeId).asked,
      perSecond: 0,
      demand: 1,
      bytesEach: 0,
      usedMs: sharedMs(),
      namedUntilMs: 0,
    }
    this.#pipes.set(pipeId, pipe)
    return pipe
  }

  #allowance(pipeId: string): PipeAllowance {
    return new PipeAllowance(this.#options.counters, pipeId)
  }

  /** Runs until no request waits. Each round serves all waiting requests, with at most one statement. */
  async #serve(pipeId: string, pipe: Pipe): Promise<void> {
    if (pipe.isServed) return
    pipe.isServed = true
    while (pipe.waiting.length > 0) {
      const isDone = await this.#provide(pipeId, pipe).catch((err) => {
        this.#failed(err)
        return false
      })
      this.#settle(pipeId, pipe)
      if (!isDone && pipe.waiting.length > 0) await pause(againMs)
    }
    pipe.isServed = false
  }

  /** Returns false when the pipe has changed meanwhile. */
  async #provide(pipeId: string, pipe: Pipe): Promise<boolean> {
    const allowance = this.#allowance(pipeId)
    const asked = pipe.waiting.map(({ amount }) => amount).reduce(sum, none)
    await this.#provideRate(pipeId, pipe, allowance, asked.records)
    const left = allowance.leftOfBlock(sharedMs())
    if (asked.records <= left.records && asked.bytes <= left.bytes) return true
    if (asked.records > 0) pipe.bytesEach = Math.ceil(asked.bytes / asked.records)
    const need = {
      records: Math.max(0, asked.records - left.records),
      bytes: Math.max(0, asked.bytes - left.bytes),
    }
    return await this.#reserve(pipeId, pipe, need)
  }

  async #provideRate(pipeId: string, pipe: Pipe, allowance: PipeAllowance, records: number): Promise<void> {
    const { limits } = pipe
    if (this.#nodes === null) await this.#settleShares(new Map())
    if (allowance.share === 0) this.#setShare(pipeId, pipe, 0, undefined)
    if (allowance.share > 0 || allowance.hasTokens(limits, records, sharedMs())) return
    pipe.namedUntilMs = sharedMs() + namedForMs
    this.#movingUntilMs = pipe.namedUntilMs
    // Not measured yet, so the maximum demand is reported.
    pipe.demand = limits.pl_ingest_max_records_per_second
    await this.#settleShares(new Map([[pipeId, pipe]])).catch((err) => {
      // The node keeps its share.
      allowance.setShare(Math.abs(allowance.share), limits, sharedMs())
      this.#failed(err)
    })
  }

  async #reserve(pipeId: string, pipe: Pipe, need: DaySums): Promise<boolean> {
    const { generation } = pipe
    const sentMs = sharedMs()
    const held = this.#allowance(pipeId).leftOfBlock(sentMs)
    const records = Math.max(0, Math.ceil(pipe.perSecond * blockSeconds) - held.records)
    const ask = { need, spare: { records, bytes: records * pipe.bytesEach }, held }
    const block = await this.#turns.run(() => this.#reserveOrOpen(pipeId, ask), turnOf(pipeId))
    if (pipe.generation !== generation) {
      if (block !== null) await this.#return({ pipeId, ledgerId: block.ledgerId }, block)
      return false
    }
    if (block === null) {
      // The limits were just removed. The waiting requests are not counted.
      for (const { amount, limits, resolve } of pipe.waiting.splice(0))
        resolve({ pipeId, amount, day: 0, state: { ...fullState(limits) } })
      return true
    }
    if (block.ledgerId !== pipe.ledgerId) {
      pipe.ledgerId = block.ledgerId
      pipe.ledger = ++this.#lastLedger
    }
    const isAll = block.records >= need.records && block.bytes >= need.bytes
    this.#allowance(pipeId).addBlock({
      ledger: pipe.ledger,
      amount: { records: block.records, bytes: block.bytes },
      reserved: block.reserved,
      // Computed from the time before the request was sent, so it is never later than the database's end of the day.
      dayEndMs: sentMs + block.dayLeftMs,
      exhaustedUntilMs: isAll ? null : sharedMs() + exhaustedForMs,
    })
    return true
  }

  async #reserveOrOpen(pipeId: string, ask: QuotaAsk): Promise<QuotaBlock | null> {
    const { store, countUsage } = this.#options
    const block = await store.reserve(pipeId, ask)
    if (block !== null) return block
    await countUsage(pipeId)
    await store.openDay(pipeId)
    return await store.reserve(pipeId, ask)
  }

  /** Settles waiting requests in order. One that needs more waits for the next round, unless it has waited long enough. */
  #settle(pipeId: string, pipe: Pipe): void {
    const nowMs = sharedMs()
    const { waiting } = pipe
    const outcomes = this.#allowance(pipeId).takeEach(waiting, nowMs)
    pipe.waiting = waiting.filter((one, index) => {
      const outcome = outcomes[index]!
      if (outcome === 'ask' && nowMs < one.untilMs) return true
      one.resolve(outcome === 'ask' ? 'unavailable' : outcome)
      return false
    })
  }

  async #look(): Promise<void> {
    const nowMs = sharedMs()
    await Promise.all([...this.#pipes].map(([pipeId, pipe]) => this.#lookAt(pipeId, pipe, nowMs)))
    if (nowMs - this.#sharedMs < shareEveryMs && nowMs > this.#movingUntilMs) return
    this.#sharedMs = nowMs
    const named = new Map([...this.#pipes].filter(([, { namedUntilMs }]) => namedUntilMs > nowMs))
    if (named.size === 0 && nowMs - this.#nodesMs < nodesKnownMs) return
    await this.#settleShares(named)
    for (const [pipeId, pipe] of this.#pipes)
      if (pipe.namedUntilMs <= sharedMs()) this.#setShare(pipeId, pipe, 0, undefined)
    if (nowMs - this.#prunedMs < pruneEveryMs) return
    this.#prunedMs = nowMs
    await this.#options.store.pruneDemand()
  }

  async #lookAt(pipeId: string, pipe: Pipe, nowMs: number): Promise<void> {
    this.#measure(pipeId, pipe, nowMs)
    if (pipe.isServed) return
    const left = this.#allowance(pipeId).leftOfBlock(nowMs)
    if (nowMs - pipe.usedMs > forgottenAfterMs) this.#forgetIdle(pipeId, pipe)
    else if (nowMs - pipe.usedMs > idleMs) await this.#returnBlock(pipeId, pipe)
    else if (left.records < (pipe.perSecond * blockSeconds) / 2) await this.#fillUp(pipeId, pipe)
  }

  /** Runs even while a statement does not return. */
  #endWaits(): void {
    const nowMs = sharedMs()
    for (const pipe of this.#pipes.values()) {
      const late = pipe.waiting.filter(({ untilMs }) => untilMs <= nowMs)
      if (late.length === 0) continue
      pipe.waiting = pipe.waiting.filter(({ untilMs }) => untilMs > nowMs)
      for (const { resolve } of late) resolve('unavailable')
    }
  }

  #measure(pipeId: string, pipe: Pipe, nowMs: number): void {
    const { asked } = this.#allowance(pipeId)
    const since = asked - pipe.asked
    pipe.asked = asked
    if (since > 0) pipe.usedMs = nowMs
    const rate = pipe.limits.pl_ingest_max_records_per_second
    const perSecond = Math.min(rate, Math.max((since * 1000) / lookEveryMs, pipe.perSecond / 2))
    pipe.perSecond = perSecond < 0.5 ? 0 : perSecond
    pipe.demand = Math.max(1, Math.ceil(pipe.perSecond))
    const equal = rate / (this.#nodes ?? 1)
    if (pipe.perSecond > equal * quietPart) pipe.namedUntilMs = nowMs + namedForMs
  }

  /** Refills the block in advance; no request waits for it. */
  async #fillUp(pipeId: string, pipe: Pipe): Promise<void> {
    pipe.isServed = true
    try {
      await this.#reserve(pipeId, pipe, none)
    } finally {
      pipe.isServed = false
      if (pipe.waiting.length > 0) void this.#serve(pipeId, pipe)
    }
  }

  #forgetIdle(pipeId: string, pipe: Pipe): void {
    this.#allowance(pipeId).setShare(0, pipe.limits, 0)
    this.#pipes.delete(pipeId)
  }

  async #settleShares(named: ReadonlyMap<string, Pipe>): Promise<void> {
    const { store, nodeId } = this.#options
    const demand = new Map([...named].map(([pipeId, pipe]) => [pipeId, pipe.demand]))
    const { nodes, others } = await store.demand(nodeId, demand)
    this.#nodes = nodes
    this.#nodesMs = sharedMs()
    for (const [pipeId, pipe] of named)
      this.#setShare(pipeId, pipe, pipe.demand, others.get(pipeId) ?? { records: 0, nodes: 0 })
  }

  /** `others` is undefined when this node does not need more. */
  #setShare(
    pipeId: string,
    { limits }: Pipe,
    own: number,
    others: { records: number; nodes: number } | undefined,
  ): void {
    const nodes = this.#nodes ?? 1
    const quiet = quietPart / nodes
    // No node needed more for some seconds, so the rest of the bucket is full.
    const isUnused = others?.nodes === 0
    const share =
      nodes === 1
        ? 1
        : others === undefined
          ? -quiet
          : Math.max(
              quiet,
              ((1 - quiet * Math.max(0, nodes - 1 - others.nodes)) * own) / (own + others.records),
            )
    this.#allowance(pipeId).setShare(share, limits, sharedMs(), isUnused)
  }

  async #returnBlock(pipeId: string, pipe: Pipe): Promise<void> {
    const { ledgerId } = pipe
    const left = this.#allowance(pipeId).takeBlock()
    pipe.ledgerId = null
    if (ledgerId !== null && (left.records > 0 || left.bytes > 0))
      await this.#return({ pipeId, ledgerId }, left)
  }

  /** An unavailable database is not an error here, because the heartbeat reports it. */
  #failed(err: unknown): void {
    const { log } = this.#options
    if (err instanceof StorageUnavailableError) log.debug({ err }, 'quota.unavailable')
    else log.error({ err }, 'quota.failed')
  }

  /** Not repeated after a failure, because it is unknown whether the return was done. */
  async #return(block: { pipeId: string; ledgerId: string }, { records, bytes }: DaySums): Promise<void> {
    try {
      await this.#turns.run(
        () => this.#options.store.returnBlock(block, { records, bytes }),
        turnOf(block.pipeId),
      )
    } catch (err) {
      this.#failed(err)
    }
  }
}

const none: DaySums = { records: 0, bytes: 0 }

function turnOf(pipeId: string) {
  return { turn: { group: '', member: pipeId } }
}

function sum(one: DaySums, other: DaySums): DaySums {
  return { records: one.records + other.records, bytes: one.bytes + other.bytes }
}

function fullState(limits: IngestLimits) {
  const limit = limits.pl_ingest_max_records_per_second
  return { limit, remaining: capacityOf(limits), resetSeconds: 0 }
}
