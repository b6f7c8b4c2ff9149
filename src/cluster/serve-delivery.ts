/**
 * The owner's side of delivery in a cluster: serves requests of other nodes for lanes of this node. A request for a
 * lane that this node does not run is rejected as `not_owner` before anything is done (delivery/owned-lanes.ts).
 *
 * A pulled message is held by the requesting node until it reports the outcome. A node that dies reports nothing, so
 * each node lists its held messages every two seconds. A message that was not listed for some seconds is redelivered.
 */
import Type from 'typebox'
import { uuidPattern } from '../contract/uuid.ts'
import type { LaneCommands, LaneViews, PulledRef, Pulls } from '../delivery/delivery.ts'
import { LaneElsewhereError } from '../platform/error-code.ts'
import { RefusedRequestError, type ServedMethod, served } from './node-server.ts'
import { count, limits } from './protocol.ts'

/** How often a node lists the pulled messages that it holds, and how long one is held without being listed. */
export const holdingEveryMs = 2_000
const heldUnlistedMs = 7_000
const sweepEveryMs = 1_000

const id = Type.String({ pattern: uuidPattern })
const ids = Type.Array(id, { maxItems: limits.ids })
const since = Type.Union([Type.Null(), Type.String({ maxLength: 200 })])
const page = Type.Union([Type.Null(), Type.Object({ from: count, limit: count })])
const target = Type.Union([
  Type.Object({ to: Type.Literal('earliest') }),
  Type.Object({ to: Type.Literal('seq'), seq: count }),
  Type.Object({ to: Type.Literal('time'), timeMs: Type.Number() }),
])
const pull = Type.Object({ waitMs: count, afterSeq: Type.Union([Type.Null(), count]) })
const query = Type.Object({ workspaceIds: ids, destinationIds: ids, withAges: Type.Boolean() })

type Local = Omit<LaneViews, 'metrics'> &
  Omit<LaneCommands, 'refresh' | 'countUsage'> &
  Omit<Pulls, 'endPulls'>

export interface ServedDelivery {
  methods: Record<string, ServedMethod>
  close(): void
}

export function serveDelivery(local: Local): ServedDelivery {
  const lent = new HeldPulls((ref) => {
    // A failure ends the lane, which logs it.
    local.abandoned(ref).catch(() => {})
  })
  const methods = {
    'delivery.lanes': served([ids], async ([ids]) => ({ value: await local.lanes(ids) })),
    'delivery.lanesSince': served([ids, since], async ([ids, since]) => ({
      value: await local.lanesSince(ids, since),
    })),
    'delivery.backlogs': served([ids], async ([ids]) => ({ value: await local.backlogs(ids) })),
    'delivery.troubles': served([query], async ([query]) => ({ value: await local.troubles(query) })),
    'delivery.blockingMessage': served([id, page], async ([id, page]) => ({
      value: await local.blockingMessage(id, page ?? undefined),
    })),
    'delivery.skip': served([id], async ([id]) => ({ value: await local.skip(id) })),
    'delivery.retryNow': served([id], async ([id]) => ({ value: await local.retryNow(id) })),
    'delivery.rewind': served([id, target], async ([id, target]) => ({
      value: await local.rewind(id, target),
    })),
    'delivery.acknowledge': served([id, id, Type.Boolean()], async ([destinationId, msgId, isDone]) => ({
      value: await local.acknowledge({ destinationId, msgId }, isDone),
    })),
    'delivery.parkedChanged': served([id], async ([id]) => ({ value: await local.parkedChanged(id) })),
    'delivery.pull': served([id, pull], async ([destinationId, { waitMs, afterSeq }], context) => {
      // Limited by the wait of the request, so that a request does not outlive its caller.
      const wait = Math.min(waitMs, context.waitMs)
      const found = await local.pull(destinationId, { waitMs: wait, afterSeq })
      if (found.kind !== 'message') return { value: found }
      const { json, ...message } = found
      // The consumer tracks its own position, so nothing is in flight.
      if (afterSeq !== null) return { value: message, bytes: json }
      lent.add({ destinationId, pullId: message.pullId }, context.from)
      const onReceived = (wasReceived: boolean) => {
        if (!wasReceived) lent.release(message.pullId)
      }
      return { value: message, bytes: json, onReceived }
    }),
    'delivery.pulled': served([id, id], async ([destinationId, pullId]) => {
      if (lent.settle(pullId)) await local.pulled({ destinationId, pullId })
      return {}
    }),
    'delivery.abandoned': served([id, id], async ([destinationId, pullId]) => {
      if (lent.settle(pullId)) await local.abandoned({ destinationId, pullId })
      return {}
    }),
    'delivery.holding': served([ids], async ([pullIds], { from }) => {
      for (const pullId of pullIds) lent.named(pullId, from)
      return {}
    }),
  }
  const owned = Object.entries(methods).map(([name, run]) => [name, ifOwned(run)])
  return { methods: Object.fromEntries(owned), close: () => lent.close() }
}

function ifOwned(run: ServedMethod): ServedMethod {
  return async (args, context) => {
    try {
      return await run(args, context)
    } catch (error) {
      if (!(error instanceof LaneElsewhereError)) throw error
      throw new RefusedRequestError('not_owner', error.message)
    }
  }
}

interface Lent {
  destinationId: string
  from: string
  listedMs: number
}

/** Pulled messages held by other nodes. */
class HeldPulls {
  readonly #lent = new Map<string, Lent>()
  readonly #abandon: (ref: PulledRef) => void
  readonly #sweep: NodeJS.Timeout

  constructor(abandon: (ref: PulledRef) => void) {
    this.#abandon = abandon
    this.#sweep = setInterval(() => this.#releaseUnlisted(), sweepEveryMs)
    this.#sweep.unref()
  }

  add({ destinationId, pullId }: PulledRef, from: string): void {
    this.#lent.set(pullId, { destinationId, from, listedMs: performance.now() })
  }

  named(pullId: string, from: string): void {
    const lent = this.#lent.get(pullId)
    if (lent?.from === from) lent.listedMs = performance.now()
  }

  /** Returns false when it was returned or settled before. */
  settle(pullId: string): boolean {
    return this.#lent.delete(pullId)
  }

  release(pullId: string): void {
    const lent = this.#lent.get(pullId)
    if (lent === undefined) return
    this.#lent.delete(pullId)
    this.#abandon({ destinationId: lent.destinationId, pullId })
  }

  close(): void {
    clearInterval(this.#sweep)
  }

  #releaseUnlisted(): void {
    const before = performance.now() - heldUnlistedMs
    for (const [pullId, { listedMs }] of this.#lent) if (listedMs < before) this.release(pullId)
  }
}
