/** The next step for a message in a lane. */
import { Link } from 'wouter'
import type { DestinationType } from '../../../../contract/destination-words.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import type { MessageDetail } from '../../../client/client.ts'
import { faultWords } from '../../../client/lane-error.ts'
import { errorWords } from '../../../client/parked.ts'
import { Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { parkedPath } from '../parked/crumbs.tsx'
import { useParkedOf } from './queries.ts'

/** The number of parked records with individual links. */
const linkedParked = 5

interface NextProps {
  pipeId: string
  msgId: string
  lane: MessageDetail['lanes'][number]
  /** The type of the destination, if it is known. */
  type: DestinationType | undefined
}

export function Next({ pipeId, msgId, lane, type }: NextProps) {
  const { destination_id: destinationId, state, last_error: error } = lane
  const toLane = (words: string) => <Link to={`/pipes/${pipeId}/destinations/${destinationId}`}>{words}</Link>
  switch (state) {
    case 'delivered':
      return <>Nothing.</>
    case 'pending':
      return <>Not delivered yet: {toLane('see the lane')}.</>
    case 'stuck':
      return (
        <>
          {error !== null && error.fault !== null
            ? `The cause is ${faultWords(error, type)}. `
            : 'The lane retries by itself. '}
          {toLane('Retry or skip it')}
        </>
      )
    case 'parked':
      return <Parked pipeId={pipeId} destinationId={destinationId} msgId={msgId} />
    case 'skipped':
      return <>A user skipped it. {toLane('Rewind the lane')} to deliver it again while it is kept.</>
    case 'dropped':
      return (
        <>
          It was lost before it was delivered: it was too old, or the disk was damaged. See the log
          (lane.dropped).
        </>
      )
  }
}

function Parked({ msgId, ...place }: { pipeId: string; destinationId: string; msgId: string }) {
  const { data: parked } = useParkedOf(place, msgId)
  if (parked === undefined || parked.length === 0)
    return <Link to={parkedPath(place)}>See the parked records of the lane</Link>
  return (
    <>
      Correct and replay it:
      {parked.slice(0, linkedParked).map(({ parked_id: id, record_index: index, error }) => (
        <div key={id}>
          <Link to={parkedPath(place, id)}>
            {index === null ? 'the whole message' : `record ${count(index + 1)}`}
          </Link>{' '}
          <Soft>
            <Outside text={errorWords(error)} />
          </Soft>
        </div>
      ))}
      {parked.length > linkedParked ? (
        <div>
          <Link to={parkedPath(place)}>{counted(parked.length, 'record')} in all</Link>
        </div>
      ) : null}
    </>
  )
}
