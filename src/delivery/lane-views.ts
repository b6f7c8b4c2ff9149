/**
 * Remembers the last shown state of each lane, for clients that poll for changes every few seconds. Without changes a
 * poll costs one comparison per lane and no query: a lane is unchanged while its row, its destination and `isStalled`
 * are the same and its pipe has no newer message.
 *
 * Only the age of pending messages grows without a change; the client adds the elapsed time.
 */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { LaneStatus } from '../contract/destination.ts'
import type { LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { ParkedCounts } from '../metadata/parked-store-port.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import type { ChangedLanes, LaneFailure, LaneTrouble, TroubleQuery } from './delivery.ts'
import type { Lane } from './lane.ts'
import type { LaneSet } from './lane-set.ts'

interface View {
  spec: LaneSpec
  row: LaneState
  isStalled: boolean
  parked: ParkedCounts
  status: LaneStatus
  revision: number
}

/** Each status costs about 40 µs. After this many, other work of the thread can run. */
const statusesAtOnce = 200

export class ChangesOfLanes {
  readonly #lanes: LaneSet
  /** Revisions of another thread are not valid here. */
  readonly #origin = randomUUID()
  readonly #views = new WeakMap<Lane, View>()
  #revision = 0
  readonly #queue = new SerialQueue()

  constructor(lanes: LaneSet) {
    this.#lanes = lanes
  }

  /** Reads run one after the other, so that changes found by a read get a revision that no earlier read has returned. */
  changedSince(destinationIds: readonly string[], since: string | null): Promise<ChangedLanes> {
    return this.#queue.run(() => this.#look(destinationIds, this.#parse(since)))
  }

  async #look(destinationIds: readonly string[], since: number): Promise<ChangedLanes> {
    const changed: Record<string, LaneStatus> = {}
    let made = 0
    for (const destinationId of destinationIds) {
      const lane = this.#lanes.lane(destinationId)
      if (lane === undefined) continue
      let view = this.#views.get(lane)
      if (view === undefined || !this.#isCurrent(lane, view)) {
        view = await this.#show(lane)
        made += 1
        if (made % statusesAtOnce === 0) await setImmediate()
      }
      if (view.revision > since) changed[destinationId] = view.status
    }
    return { revision: `${this.#origin}.${this.#revision}`, lanes: changed }
  }

  #isCurrent(lane: Lane, { row, spec, isStalled, parked, status }: View): boolean {
    return (
      lane.row === row &&
      lane.spec === spec &&
      lane.isStalled === isStalled &&
      lane.parked === parked &&
      (this.#lanes.drift.unmapped(spec)?.keys ?? 0) === (status.unmapped_keys ?? 0) &&
      this.#lanes.headSeq(spec.pipeId) <= status.head_seq
    )
  }

  async #show(lane: Lane): Promise<View> {
    // Copied before the first wait: changes during the wait then show as differences at the next read.
    const { row, spec, isStalled, parked } = lane
    const status = await lane.view.status()
    this.#revision += 1
    const view = { row, spec, isStalled, parked, status, revision: this.#revision }
    this.#views.set(lane, view)
    return view
  }

  #parse(since: string | null): number {
    const [origin, revision] = since?.split('.') ?? []
    return origin === this.#origin ? Number(revision) : -1
  }
}

/**
 * Lists the lanes of this thread whose next message has failed, that have lost or parked messages, or that have unmapped keys.
 * It uses only memory: 10,000 lanes take half a millisecond, or 3 ms when all have failed.
 */
export async function troublesOf(
  lanes: LaneSet,
  { workspaceIds, destinationIds, withAges }: TroubleQuery,
): Promise<LaneTrouble[]> {
  const workspaces = new Set(workspaceIds)
  const wanted = new Set(destinationIds)
  const found: LaneTrouble[] = []
  for (const lane of lanes.lanes()) {
    const { row, spec } = lane
    if (!workspaces.has(spec.workspaceId)) continue
    const isIdle = lanes.headSeq(spec.pipeId) <= row.cursorSeq
    const unmapped = lanes.drift.unmapped(spec)
    const columnFailure = lanes.columnFailure(spec.destinationId)
    const isInTrouble =
      columnFailure !== null ||
      row.blockingMsgId !== null ||
      row.droppedMessages > 0 ||
      lane.parked.rows > 0 ||
      (unmapped?.keys ?? 0) > 0
    const retentionHours = lanes.retentionHours(spec.pipeId)
    const isAged = (withAges || retentionHours !== null) && !isIdle
    if (!isInTrouble && !isAged && !wanted.has(spec.destinationId)) continue
    found.push({
      // Written as one literal: spreads take 120 ms instead of 3 ms for 10,000 lanes.
      workspaceId: spec.workspaceId,
      pipeId: spec.pipeId,
      destinationId: spec.destinationId,
      isHalted: spec.status === 'blocked',
      failure: failureOf(row, lane),
      isIdle,
      lastDeliveredMs: row.lastDeliveredMs,
      droppedMessages: row.droppedMessages,
      parkedRecords: lane.parked.rows,
      oldestPendingMs: isAged ? await oldestPendingMs(lane) : null,
      retentionHours,
      unmapped,
      columnFailure,
    })
  }
  return found
}

/** While a failing message is being searched for in a batch, it is not yet known to be stuck. */
function failureOf(row: LaneState, { isStalled }: Lane): LaneFailure | null {
  const { blockingMsgId, firstFailedMs, attempts, lastError, bisectLastSeq } = row
  if (blockingMsgId === null || firstFailedMs === null) return null
  return {
    msgId: blockingMsgId,
    attempts,
    firstFailedMs,
    isStalled,
    isStuck: lastError?.class === 'permanent' && bisectLastSeq === null,
    error:
      lastError === null
        ? null
        : {
            class: lastError.class,
            code: lastError.code,
            message: lastError.message,
            fault: lastError.fault,
          },
  }
}

async function oldestPendingMs(lane: Lane): Promise<number | null> {
  const { pending_messages, oldest_pending_age_seconds } = await lane.view.status()
  return pending_messages === 0 ? null : Date.now() - oldest_pending_age_seconds * 1_000
}
