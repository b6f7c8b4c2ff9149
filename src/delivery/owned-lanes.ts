/**
 * The lane service of one node of a cluster: it speaks only of lanes that it runs. What is about a lane that is another node's,
 * or is just moving, throws LaneElsewhereError before anything was done: whoever asks looks for the owner again. On one
 * machine a lane that is not there has nothing to say; here that would be a wrong answer.
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
  /** `isSure`: a result that a lane which ends, and does nothing more, cannot give. */
  const onLane =
    <Rest extends unknown[], Result>(
      run: (destinationId: string, ...rest: Rest) => Promise<Result>,
      isSure: (result: Result) => boolean,
    ) =>
    async (destinationId: string, ...rest: Rest): Promise<Result> => {
      const lane = runs(destinationId)
      if (lane === null) throw new LaneElsewhereError(destinationId)
      const result = await run(destinationId, ...rest).catch((error) => {
        // It was handed over before it could save: nothing was done here.
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
      // The backlog of a pipe that was handed over meanwhile would be everything that is kept.
      return Object.fromEntries(
        Object.entries(found).filter((entry): entry is [string, PipeBacklog] => lanes.runs(entry[0])),
      )
    },
    skip: onLane(service.skip, (skipped) => skipped !== false),
    retryNow: onLane(service.retryNow, (msgId) => msgId !== null),
    // One that was done just before is done again from where it left: to the same place.
    rewind: onLane(service.rewind, ({ kind }) => kind === 'ahead'),
    blockingMessage: onLane(service.blockingMessage, (message) => message !== null),
    pull: onLane(service.pull, ({ kind }) => kind === 'message'),
    acknowledge: onLane(service.acknowledge, (isDone) => isDone),
    parkedChanged: onLane(service.parkedChanged, () => false),
  }
}
