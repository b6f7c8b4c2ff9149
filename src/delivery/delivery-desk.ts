/**
 * What the delivery thread answers: every method of `Delivery` over the lanes it owns, plus its own numbers and its end.
 * Plain functions over a LaneSet; how questions get here is `delivery-thread.ts`'s business.
 */
import type { BufferReader, PipePosition } from '../buffer/buffer.ts'
import type { Lane as LaneObject } from '../contract/destination.ts'
import type { DestinationCheck, DestinationSpec } from '../destinations/driver.ts'
import type { Clock } from './clock.ts'
import type { BlockingMessage, Delivery, PipeBacklog, RewindTarget } from './delivery.ts'
import type { DeliveryMetrics } from './delivery-metrics.ts'
import type { AnyLane, LaneSet } from './lane-set.ts'
import { laneView, pendingOf } from './lane-view.ts'
import { firstRecords } from './ndjson.ts'
import { PullLane } from './pull-lane.ts'

export interface DeliveryDesk extends Delivery {
  metrics(): Promise<DeliveryMetrics>
}

export interface DeskDeps {
  lanes: LaneSet
  reader: BufferReader
  clock: Clock
  check(spec: DestinationSpec, signal: AbortSignal): Promise<DestinationCheck[]>
}

const shownRecords = 20
const checkDeadlineMs = 10_000

export function openDesk({ lanes, reader, clock, check }: DeskDeps): DeliveryDesk {
  const pullLane = (destinationId: string): PullLane | null => {
    const lane = lanes.lane(destinationId)
    return lane instanceof PullLane ? lane : null
  }

  async function view(lane: AnyLane): Promise<LaneObject> {
    const row = await lane.batches.located(lane.row)
    const head = await lane.batches.head()
    const hasPending = head.messages > (row.cursorTotals?.messages ?? 0)
    return laneView({
      row,
      status: lane.spec.status,
      isStalled: lane.isStalled,
      head,
      oldestReceivedMs: hasPending ? await lane.batches.oldestReceivedMs(row) : null,
      nowMs: clock.now(),
    })
  }

  async function backlog(pipeId: string): Promise<PipeBacklog> {
    const head = await reader.head(pipeId)
    const owned = lanes.lanesOf(pipeId)
    if (owned.length === 0) return everythingKept(head, await reader.floor(pipeId))
    const pending = owned.map((lane) => pendingOf(lane.row, head))
    return {
      pending_messages: Math.max(...pending.map(({ messages }) => messages)),
      pending_bytes: Math.max(...pending.map(({ bytes }) => bytes)),
      blocked_lanes: owned.filter((lane) => lane.spec.status === 'blocked' || lane.row.blockingMsgId !== null)
        .length,
    }
  }

  return {
    refresh: (pipeId) => lanes.refresh(pipeId),
    async lanes(destinationIds) {
      const found: Record<string, LaneObject> = {}
      for (const destinationId of destinationIds) {
        const lane = lanes.lane(destinationId)
        if (lane !== undefined) found[destinationId] = await view(lane)
      }
      return found
    },
    async backlogs(pipeIds) {
      const found: Record<string, PipeBacklog> = {}
      for (const pipeId of pipeIds) found[pipeId] = await backlog(pipeId.toLowerCase())
      return found
    },
    skip: async (destinationId) => (await lanes.lane(destinationId)?.skip()) ?? false,
    retryNow: async (destinationId) => (await lanes.lane(destinationId)?.retryNow()) ?? null,
    blockingMessage: async (destinationId) => blockingMessage(lanes.lane(destinationId)),
    rewind: async (destinationId, target) => rewind(lanes.lane(destinationId), target, reader),
    test: (spec) => checkWithin(spec, check, clock),
    pull: async (destinationId, request) =>
      (await pullLane(destinationId)?.pull(request)) ?? { kind: 'not_found' },
    pulled: async (destinationId, pullId) => pullLane(destinationId)?.pulled(pullId),
    abandoned: async (destinationId, pullId) => pullLane(destinationId)?.abandoned(pullId),
    acknowledge: async (destinationId, msgId, done) =>
      (await pullLane(destinationId)?.acknowledge(msgId.toLowerCase(), done)) ?? false,
    endPulls: async () => lanes.endPulls(),
    async metrics() {
      const numbers: DeliveryMetrics = { inFlightBytes: lanes.budget.heldBytes, lanes: [] }
      for (const lane of lanes.lanes()) {
        const { destinationId, pipeId, type } = lane.spec
        const attempts = lanes.attempts(destinationId)
        numbers.lanes.push({ destinationId, pipeId, type, lane: await view(lane), attempts: { ...attempts } })
      }
      return numbers
    },
  }
}

async function blockingMessage(lane: AnyLane | undefined): Promise<BlockingMessage | null> {
  const message = await lane?.blockingMessage()
  if (!message) return null
  return {
    msg_id: message.msgId,
    stream_seq: message.seq,
    received_ts: new Date(message.receivedMs).toISOString(),
    records_count: message.recordCount,
    recordTexts: firstRecords(message.body, shownRecords),
    truncated: message.recordCount > shownRecords,
  }
}

async function rewind(
  lane: AnyLane | undefined,
  target: RewindTarget,
  reader: BufferReader,
): Promise<number> {
  if (lane === undefined) return 0
  const { pipeId } = lane.spec
  return await lane.rewind(async () => {
    switch (target.to) {
      case 'earliest':
        return 0
      case 'seq':
        return target.seq
      case 'time':
        return await reader.cursorAtTime(pipeId, target.timeMs)
    }
  })
}

/** A check that does not end in time says so instead. */
async function checkWithin(
  spec: DestinationSpec,
  check: DeskDeps['check'],
  clock: Clock,
): Promise<DestinationCheck[]> {
  const deadline = new AbortController()
  let cancel = () => {}
  const late = new Promise<DestinationCheck[]>((resolve) => {
    cancel = clock.wake(checkDeadlineMs, () => {
      deadline.abort()
      const message = `The destination did not answer within ${checkDeadlineMs / 1000} s.`
      resolve([{ name: 'deadline', ok: false, message }])
    })
  })
  try {
    return await Promise.race([check(spec, deadline.signal), late])
  } finally {
    cancel()
  }
}

function everythingKept(head: PipePosition, floor: PipePosition): PipeBacklog {
  return {
    pending_messages: Math.max(0, head.messages - floor.messages),
    pending_bytes: Math.max(0, head.bytes - floor.bytes),
    blocked_lanes: 0,
  }
}
