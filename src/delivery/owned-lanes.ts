/**
 * The lane service of one node of a cluster, limited to the lanes that the node runs. A request for a lane of another
 * node, or a lane that is moving, throws LaneElsewhereError before anything is done; the caller then looks for the
 * owner again. On a single machine, a missing lane means an empty result; in a cluster that would be wrong.
 */
import type { LaneOwnership } from '../metadata/lane-ownership.ts'
import { LaneOwnershipLostError } from '../metadata/lane-state.ts'
import { LaneElsewhereError } from '../platform/error-code.ts'
import type { Delivery, PipeBacklog } from './delivery.ts'
import type { LaneSet } from './lane-set.ts'

export function ownedLanes(
  service: Delivery,
  lanes: Pick<LaneSet, 'lane' | 'runs'>,
  ownership: Pick<LaneOwnership, 'owned'>,
): Delivery {
  const runs = (destinationId: string) => {
    const lane = lanes.lane(destinationId)
    return lane !== undefined && ownership.owned(lane.spec.pipeId) !== null ? lane : null
  }
  /** `isSure`: a result that a lane which is ending, and does nothing more, cannot return. */
  const onLane =
    <Rest extends unknown[], Result>(
      run: (destinationId: string, ...rest: Rest) => Promise<Result>,
      isSure: (result: Result) => boolean,
    ) =>
    async (destinationId: string, ...rest: Rest): Promise<Result> => {
      const lane = runs(destinationId)
      if (lane === null) throw new LaneElsewhereError(destinationId)
      const result = await run(destinationId, ...rest).catch((error) => {
        // The lane was handed over before it could save: nothing was done.
        throw error instanceof LaneOwnershipLostError ? new LaneElsewhereError(destinationId) : error
      })
      if (lanes.lane(destinationId) !== lane && !isSure(result)) throw new LaneElsewhereError(destinationId)
      return result
    }
  const present = (ids: readonly string[]) => ids.filter((id) => runs(id) !== null)
  return {
    ...service,
    lanes: (ids) => service.lanes(present(ids)),
    async lanesSince(ids, since) {
      const here = present(ids)
      const found = await service.lanesSince(here, since)
      const still = new Set(present(here))
      return { ...found, absent: ids.filter((id) => !still.has(id)) }
    },
    async backlogs(pipeIds) {
      const found = await service.backlogs(pipeIds.filter((id) => lanes.runs(id)))
      // The backlog of a pipe that was handed over meanwhile would include all kept messages.
      return Object.fromEntries(
        Object.entries(found).filter((entry): entry is [string, PipeBacklog] => lanes.runs(entry[0])),
      )
    },
    skip: onLane(service.skip, (skipped) => skipped !== false),
    retryNow: onLane(service.retryNow, (msgId) => msgId !== null),
    // If the rewind was already done, repeating it leads to the same cursor.
    rewind: onLane(service.rewind, ({ kind }) => kind === 'ahead'),
    blockingMessage: onLane(service.blockingMessage, (message) => message !== null),
    pull: onLane(service.pull, ({ kind }) => kind === 'message'),
    acknowledge: (message, isDone) => {
      const acknowledge = onLane(
        () => service.acknowledge(message, isDone),
        (hadLease) => hadLease,
      )
      return acknowledge(message.destinationId)
    },
    parkedChanged: onLane(service.parkedChanged, () => false),
  }
}
