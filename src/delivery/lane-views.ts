/**
 * Remembers the state of each lane that was shown last, for clients that poll every few seconds and only want the changes
 * since. At rest a poll costs a comparison per lane, without a query: a lane is unchanged while its row, its destination
 * and whether it is stalled are the same, and no newer message has been appended to its pipe.
 *
 * Only the age of pending messages grows by itself; the client adds the time that has passed.
 */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { LaneStatus } from '../contract/destination.ts'
import type { LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { ParkedCounts } from '../metadata/parked-store-port.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import type { ChangedLanes } from './delivery.ts'
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

/** Each costs about 40 µs: between so many, something else may run. */
const statusesAtOnce = 200

export class ChangesOfLanes {
  readonly #lanes: LaneSet
  /** Revisions of another thread mean nothing here. */
  readonly #origin = randomUUID()
  readonly #views = new WeakMap<Lane, View>()
  #revision = 0
  readonly #queue = new SerialQueue()

  constructor(lanes: LaneSet) {
    this.#lanes = lanes
  }

  /** One after the other: what a look finds new has a revision that no earlier look was given. */
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
      this.#lanes.headSeq(spec.pipeId) <= status.head_seq
    )
  }

  async #show(lane: Lane): Promise<View> {
    // As they are before the first wait: what changes during it is different from them at the next look.
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
