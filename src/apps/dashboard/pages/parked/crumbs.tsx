/** The breadcrumbs of the parked-record pages, and the name of their lane in commands. */
import { Link } from 'wouter'
import { destinationName } from '../../../client/cli-twin.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { nameOf } from '../../ui/lane-words.tsx'
import { Outside } from '../../ui/text.tsx'
import { PipeCrumb } from '../pipe/crumbs.tsx'

export function parkedPath({ pipeId, destinationId }: LaneRef, parkedId?: string): string {
  return `/pipes/${pipeId}/destinations/${destinationId}/parked${parkedId === undefined ? '' : `/${parkedId}`}`
}

/** `withList`: includes the list of parked records. */
export function LaneCrumb({ place, withList = false }: { place: LaneRef; withList?: boolean }) {
  const { pipeId, destinationId } = place
  const lane = useLane(place)
  return (
    <>
      <PipeCrumb pipeId={pipeId} /> /{' '}
      <Link to={`/pipes/${pipeId}/destinations/${destinationId}`}>
        <Outside text={lane === undefined ? 'lane' : nameOf(lane)} />
      </Link>
      {withList ? (
        <>
          {' '}
          / <Link to={parkedPath(place)}>Parked</Link>
        </>
      ) : null}
    </>
  )
}

export function useLane({ pipeId, destinationId }: LaneRef) {
  return usePipeOverview(pipeId)?.lanes.find((one) => one.destination_id === destinationId)
}

/** The name of the lane in commands. */
export function useReference(place: LaneRef): string {
  const pipe = usePipeOverview(place.pipeId)
  const lane = useLane(place)
  return pipe === undefined || lane === undefined
    ? place.destinationId
    : destinationName(pipe.pipe_name, lane)
}
