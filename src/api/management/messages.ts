/** Messages: one by its id, or a page of those of a pipe, with the state of each in every lane. */
import { ApiError } from '../../contract/errors.ts'
import type { MessageLane } from '../../contract/message.ts'
import { isoTime } from '../../delivery/lane-status.ts'
import { isForPipe } from '../../ingest/admission.ts'
import type { FoundMessage, MessageExcerpt } from '../../observe/history/history.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { requirePipe } from './lookup.ts'
import { laneOf } from './message-lanes.ts'
import { MessageListing } from './message-listing.ts'
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
      const lanes = await metadata.laneRecords({ workspaceId, pipeId }, [seq])
      return messageBody(
        message,
        lanes.flatMap((lane) => laneOf(lane, message)),
      )
    },

    async listMessages({ principal: { workspaceId }, path, query }: Call<'listMessages'>) {
      const { pipe_id: pipeId } = await requirePipe(metadata, workspaceId, path)
      const found = await new MessageListing({ metadata, history }, { workspaceId, pipeId }, query).run()
      const { messages, next, searched } = found
      return {
        messages: messages.map(({ message, lanes }) => ({
          msg_id: message.msgId,
          stream_seq: message.seq,
          received_ts: isoTime(message.receivedMs),
          records_count: message.recordCount,
          bytes: message.bytes,
          excerpt: shownExcerpt(message),
          lanes: lanes.map(({ destination_id, state }) => ({ destination_id, state })),
        })),
        next,
        searched: {
          messages: searched.messages,
          bytes: searched.bytes,
          oldest_ts: searched.lastMs === null ? null : isoTime(searched.lastMs),
        },
      }
    },
  }
}

function shownExcerpt({ excerpt }: MessageExcerpt) {
  if (excerpt === null) return null
  return { record_index: excerpt.index, text: excerpt.text, truncated: excerpt.isCut }
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
