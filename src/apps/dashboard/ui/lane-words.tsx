/** Describes a lane: its name, its error and duration, and its pending messages. */
import { Link } from 'wouter'
import type { LaneStatus } from '../../../contract/destination.ts'
import type { DestinationType } from '../../../contract/destination-words.ts'
import { bytes, count, counted, duration } from '../../../platform/quantities.ts'
import { Ago, Outside, Until } from './text.tsx'

interface Named {
  destination_id: string
  destination_type: DestinationType
  destination_name: string
}

export function nameOf(destination: Named): string {
  return destination.destination_name
}

export function LaneLink({
  pipeId,
  pipeName,
  destination,
}: {
  pipeId: string
  pipeName?: string
  destination: Named
}) {
  return (
    <Link to={`/pipes/${pipeId}/destinations/${destination.destination_id}`}>
      {pipeName === undefined ? null : (
        <>
          <Outside text={pipeName} /> /{' '}
        </>
      )}
      <Outside text={nameOf(destination)} />
    </Link>
  )
}

/** The number of its parked records as a link. Nothing if there are none. */
export function ParkedLink({
  pipeId,
  destination,
}: {
  pipeId: string
  destination: { destination_id: string; lane: LaneStatus }
}) {
  const { parked_records: parked = 0 } = destination.lane
  if (parked === 0) return null
  return (
    <Link to={`/pipes/${pipeId}/destinations/${destination.destination_id}/parked`}>
      {count(parked)} parked
    </Link>
  )
}

/** One sentence. */
export function Cause({ lane }: { lane: LaneStatus }) {
  if (lane.lane_state === 'blocked')
    return <>Blocked by a user: nothing is delivered until it is unblocked.</>
  const { last_error: error } = lane
  if (error === null) return <>An attempt failed.</>
  return (
    <>
      {error.class === 'permanent' ? 'Rejected: ' : 'Cannot deliver: '}
      <Outside text={error.message} />
      {/* PostgreSQL's messages end with their code. */}
      {error.message.includes(error.code) ? null : (
        <>
          {' '}
          (<Outside text={error.code} />)
        </>
      )}
    </>
  )
}

export function Waiting({ lane }: { lane: LaneStatus }) {
  if (lane.pending_messages === 0) return <>Nothing is pending.</>
  return (
    <>
      {counted(lane.pending_messages, 'message')} ({bytes(lane.pending_bytes)}) pending, the oldest for{' '}
      {duration(lane.oldest_pending_age_seconds)}.
    </>
  )
}

export function Since({ lane }: { lane: LaneStatus }) {
  if (lane.first_failed_ts === null) return null
  return (
    <>
      First failed <Ago at={lane.first_failed_ts} />, {counted(lane.attempts, 'attempt')}
      {lane.next_attempt_ts === null || lane.lane_state === 'blocked' ? null : (
        <>
          , next <Until at={lane.next_attempt_ts} />
        </>
      )}
      .
    </>
  )
}
