/** The state of a message in a lane, from the lane as it was last saved. */
import type { MessageLane } from '../../contract/message.ts'
import type { MessageState } from '../../contract/state-words.ts'
import { batchIdentity } from '../../delivery/batch.ts'
import { isoTime, shownError } from '../../delivery/lane-status.ts'
import type { LaneRecord } from '../../metadata/lane-records.ts'

interface Place {
  msgId: string
  seq: number
}

/** Empty for a lane that started after the message. */
export function laneOf({ state, runs, parkedSeqs }: LaneRecord, message: Place): MessageLane[] {
  const { seq } = message
  const { destinationId } = state
  const run = runs.find(({ firstSeq, lastSeq }) => firstSeq <= seq && seq <= lastSeq)
  if (run?.kind === 'before') return []
  if (seq > state.cursorSeq) return [pending(state, message)]
  const isParked = parkedSeqs.has(seq)
  if (run === undefined) return [nothingKnown(destinationId, isParked ? 'parked' : 'delivered')]
  const { kind, atMs, firstSeq, batchLastSeq, attempts } = run
  return [
    {
      ...nothingKnown(destinationId, isParked ? 'parked' : kind),
      delivered_ts: kind === 'delivered' && !isParked ? isoTime(atMs) : null,
      batch_id: batchLastSeq === null ? null : batchIdentity(destinationId, firstSeq, batchLastSeq),
      attempts,
    },
  ]
}

function pending(state: LaneRecord['state'], { msgId, seq }: Place): MessageLane {
  const isStuck = state.blockingMsgId === msgId
  const isTried = isStuck || isInFailedBatch(state, seq)
  return {
    ...nothingKnown(state.destinationId, isStuck ? 'stuck' : 'pending'),
    attempts: isTried ? state.attempts : 0,
    last_error: isTried ? shownError(state.lastError) : null,
  }
}

function nothingKnown(destinationId: string, state: MessageState): MessageLane {
  const unknown = { delivered_ts: null, batch_id: null, attempts: 0, last_error: null }
  return { destination_id: destinationId, state, ...unknown }
}

/** Whether the message is in the batch that is being retried or bisected. */
function isInFailedBatch(
  { attempts, batchLastSeq, bisectLastSeq }: LaneRecord['state'],
  seq: number,
): boolean {
  const lastSeq = bisectLastSeq ?? batchLastSeq
  return attempts > 0 && lastSeq !== null && seq <= lastSeq
}
