/** Messages: one by its id, or a page of those of a pipe, with the state of each in every lane. */
import { ApiError } from '../../contract/errors.ts'
import { type MessageLane, type MessageState, messagePage } from '../../contract/message.ts'
import { batchIdentity } from '../../delivery/batch.ts'
import { isoTime, shownError } from '../../delivery/lane-status.ts'
import { isForPipe } from '../../ingest/admission.ts'
import type { LaneRecord } from '../../metadata/lane-records.ts'
import type { FoundMessage } from '../../observe/history/history.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { requirePipe } from './lookup.ts'
import { bodyWithRecords } from './record-texts.ts'

export function messageUseCases({ metadata, history }: Pick<ManagementDeps, 'metadata' | 'history'>) {
  return {
    /** Returns the response body itself: the text of the records must not pass through a parser again. */
    async getMessage({ principal, path: { msg_id } }: Call<'getMessage'>): Promise<Buffer> {
      const message = await history.find(msg_id)
      if (message === null || !isForPipe(principal, message.pipeId)) throw new ApiError('message_not_found')
      const { workspaceId } = principal
      const { pipeId, seq } = message
      if ((await metadata.pipes.get({ workspaceId, pipeId })) === null)
        throw new ApiError('message_not_found')
      const lanes = await metadata.laneRecords({ workspaceId, pipeId }, seq, seq)
      return messageBody(
        message,
        lanes.flatMap((lane) => laneOf(lane, message)),
      )
    },

    async listMessages({ principal: { workspaceId }, path, query }: Call<'listMessages'>) {
      const { pipe_id } = await requirePipe(metadata, workspaceId, path)
      const { messages, next } = await history.list(pipe_id, {
        beforeSeq: query.after ?? Number.MAX_SAFE_INTEGER,
        afterSeq: 0,
        sinceMs: query.since === undefined ? null : Date.parse(query.since),
        untilMs: query.until === undefined ? null : Date.parse(query.until),
        limit: query.limit ?? messagePage.default,
      })
      const [newest, oldest] = [messages[0], messages.at(-1)]
      const lanes =
        newest === undefined || oldest === undefined
          ? []
          : await metadata.laneRecords({ workspaceId, pipeId: pipe_id }, oldest.seq, newest.seq)
      return {
        messages: messages.map((message) => ({
          msg_id: message.msgId,
          stream_seq: message.seq,
          received_ts: new Date(message.receivedMs).toISOString(),
          records_count: message.recordCount,
          bytes: message.bytes,
          lanes: lanes.flatMap((lane) =>
            laneOf(lane, message).map(({ destination_id, state }) => ({ destination_id, state })),
          ),
        })),
        next,
      }
    },
  }
}

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

function messageBody(message: FoundMessage, lanes: MessageLane[]): Buffer {
  const head = {
    msg_id: message.msgId,
    pipe_id: message.pipeId,
    stream_seq: message.seq,
    received_ts: new Date(message.receivedMs).toISOString(),
    records_count: message.recordCount,
  }
  return bodyWithRecords(head, message.recordTexts, { truncated: message.isTruncated, lanes })
}
