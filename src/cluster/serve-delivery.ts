/**
 * The owner's side of delivery in a cluster: other nodes ask for lanes that this one runs. What the lane service of this node
 * does not run is refused as `not_owner` (delivery/owned-lanes.ts), before anything was done.
 *
 * A message that was pulled is with the asking node until that says what became of it. A node that dies says nothing: each node
 * names what it holds every two seconds, and what nobody has named for some seconds is redelivered.
 */
import { isUuid } from '../contract/uuid.ts'
import type {
  BlockingPage,
  LaneCommands,
  LaneViews,
  PullRequest,
  Pulls,
  RewindTarget,
  TroubleQuery,
} from '../delivery/delivery.ts'
import { LaneElsewhereError } from '../platform/error-code.ts'
import { badRequest, RefusedRequestError, type Served, type ServedMethod } from './node-server.ts'
import { isCount, limits } from './protocol.ts'

/** How often a node names the pulled messages that it holds, and how long one is held without being named. */
export const holdingEveryMs = 2_000
const heldWithoutWordMs = 7_000
const sweepEveryMs = 1_000

type Local = Omit<LaneViews, 'metrics'> &
  Omit<LaneCommands, 'refresh' | 'countUsage'> &
  Omit<Pulls, 'endPulls'>

export interface ServedDelivery {
  methods: Record<string, ServedMethod>
  close(): void
}

export function serveDelivery(local: Local): ServedDelivery {
  const lent = new LentPulls((destinationId, pullId) => {
    // A failure ends the lane, which says so itself.
    local.abandoned(destinationId, pullId).catch(() => {})
  })
  const value = async (found: Promise<unknown>): Promise<Served> => ({ value: await found })
  const methods: Record<string, ServedMethod> = {
    'delivery.lanes': ([ids]) => value(local.lanes(idsOf(ids))),
    'delivery.lanesSince': ([ids, since]) => value(local.lanesSince(idsOf(ids), textOf(since))),
    'delivery.backlogs': ([ids]) => value(local.backlogs(idsOf(ids))),
    'delivery.troubles': ([query]) => value(local.troubles(troubleQueryOf(query))),
    'delivery.blockingMessage': ([id, page]) => value(local.blockingMessage(idOf(id), pageOf(page))),
    'delivery.skip': ([id]) => value(local.skip(idOf(id))),
    'delivery.retryNow': ([id]) => value(local.retryNow(idOf(id))),
    'delivery.rewind': ([id, target]) => value(local.rewind(idOf(id), targetOf(target))),
    'delivery.acknowledge': ([id, msgId, isDone]) =>
      value(local.acknowledge(idOf(id), idOf(msgId), isDone === true)),
    'delivery.parkedChanged': ([id]) => value(local.parkedChanged(idOf(id))),
    async 'delivery.pull'([id, request], context) {
      const destinationId = idOf(id)
      const wanted = pullOf(request, context.waitMs)
      const found = await local.pull(destinationId, wanted)
      if (found.kind !== 'message') return { value: found }
      const { json, ...message } = found
      // Its consumer says how far it is: nothing is in flight.
      if (wanted.afterSeq !== null) return { value: message, bytes: json }
      lent.add(message.pullId, destinationId, context.from)
      const onReceived = (wasReceived: boolean) => {
        if (!wasReceived) lent.giveBack(message.pullId)
      }
      return { value: message, bytes: json, onReceived }
    },
    'delivery.pulled': async ([id, pullId]) => {
      if (lent.settle(idOf(pullId))) await local.pulled(idOf(id), idOf(pullId))
      return {}
    },
    'delivery.abandoned': async ([id, pullId]) => {
      if (lent.settle(idOf(pullId))) await local.abandoned(idOf(id), idOf(pullId))
      return {}
    },
    'delivery.holding': async ([pullIds], { from }) => {
      for (const pullId of idsOf(pullIds)) lent.named(pullId, from)
      return {}
    },
  }
  for (const [name, run] of Object.entries(methods)) {
    methods[name] = async (args, context) => {
      try {
        return await run(args, context)
      } catch (error) {
        if (!(error instanceof LaneElsewhereError)) throw error
        throw new RefusedRequestError('not_owner', error.message)
      }
    }
  }
  return { methods, close: () => lent.close() }
}

interface Lent {
  destinationId: string
  from: string
  namedMs: number
}

/** Pulled messages that are with other nodes. */
class LentPulls {
  readonly #lent = new Map<string, Lent>()
  readonly #abandon: (destinationId: string, pullId: string) => void
  readonly #sweep: NodeJS.Timeout

  constructor(abandon: (destinationId: string, pullId: string) => void) {
    this.#abandon = abandon
    this.#sweep = setInterval(() => this.#giveBackForgotten(), sweepEveryMs)
    this.#sweep.unref()
  }

  add(pullId: string, destinationId: string, from: string): void {
    this.#lent.set(pullId, { destinationId, from, namedMs: performance.now() })
  }

  named(pullId: string, from: string): void {
    const lent = this.#lent.get(pullId)
    if (lent?.from === from) lent.namedMs = performance.now()
  }

  /** False: it was given back, or settled, before. */
  settle(pullId: string): boolean {
    return this.#lent.delete(pullId)
  }

  giveBack(pullId: string): void {
    const lent = this.#lent.get(pullId)
    if (lent === undefined) return
    this.#lent.delete(pullId)
    this.#abandon(lent.destinationId, pullId)
  }

  close(): void {
    clearInterval(this.#sweep)
  }

  #giveBackForgotten(): void {
    const before = performance.now() - heldWithoutWordMs
    for (const [pullId, { namedMs }] of this.#lent) if (namedMs < before) this.giveBack(pullId)
  }
}

function idOf(value: unknown): string {
  if (typeof value !== 'string' || !isUuid(value)) throw badRequest()
  return value
}

function idsOf(value: unknown): string[] {
  if (!Array.isArray(value) || value.length > limits.ids) throw badRequest()
  return value.map(idOf)
}

function textOf(value: unknown): string | null {
  if (value === null) return null
  if (typeof value !== 'string' || value.length > 200) throw badRequest()
  return value
}

function membersOf(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw badRequest()
  return value as Record<string, unknown>
}

function countOf(value: unknown): number {
  if (!isCount(value)) throw badRequest()
  return value
}

function pageOf(value: unknown): BlockingPage | undefined {
  if (value === null || value === undefined) return undefined
  const { from, limit } = membersOf(value)
  return { from: countOf(from), limit: countOf(limit) }
}

function targetOf(value: unknown): RewindTarget {
  const { to, seq, timeMs } = membersOf(value)
  if (to === 'earliest') return { to }
  if (to === 'seq') return { to, seq: countOf(seq) }
  if (to !== 'time' || typeof timeMs !== 'number' || !Number.isFinite(timeMs)) throw badRequest()
  return { to, timeMs }
}

/** The wait is the request's: whoever serves is not held longer than who asks waits. */
function pullOf(value: unknown, longestMs: number): PullRequest {
  const { waitMs, afterSeq } = membersOf(value)
  return {
    waitMs: Math.min(countOf(waitMs), longestMs),
    afterSeq: afterSeq === null ? null : countOf(afterSeq),
  }
}

function troubleQueryOf(value: unknown): TroubleQuery {
  const { workspaceIds, destinationIds, withAges } = membersOf(value)
  return {
    workspaceIds: idsOf(workspaceIds),
    destinationIds: idsOf(destinationIds),
    withAges: withAges === true,
  }
}
