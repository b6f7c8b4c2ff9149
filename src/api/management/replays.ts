/** Replays of ranges of kept messages: count, request, list, show, cancel (docs/dev/contract.md#replays). */
import { wordsOf } from '../../contract/destination-words.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import type { Replay, ReplayList, ReplayPlan, ReplayRequest } from '../../contract/replays.ts'
import { isoTime } from '../../delivery/lane-status.ts'
import type { StoredDestination } from '../../metadata/destinations.ts'
import type { MessageRange, RangeBound } from '../../observe/history/history.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { isoMoment } from './lanes.ts'
import { refOf, requireDestination } from './lookup.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'laneViews' | 'laneCommands' | 'history'>

export function replayUseCases({ metadata, laneViews, laneCommands, history }: Deps) {
  const { replays } = metadata

  /** The kept messages of the range that the lane has passed. It delivers the others by itself. */
  async function measured(found: StoredDestination, { from, to }: ReplayRequest): Promise<MessageRange> {
    const { destination_id, pipe_id, destination_type } = found
    requirePushed(destination_type)
    const range = { from: boundOf('from', from, 'earliest'), to: boundOf('to', to, 'now') }
    const lane = (await laneViews.lanes([destination_id]))[destination_id]
    return await history.range(pipe_id, { ...range, throughSeq: lane?.cursor_seq ?? 0 })
  }

  return {
    async planReplay({ principal, path, body }: Call<'planReplay'>): Promise<ReplayPlan> {
      const found = await requireDestination(metadata, principal.workspaceId, path)
      const range = await measured(found, body)
      const { first, last, isComplete, laterMessages } = range
      return {
        ...body,
        ...totalOf(range),
        first_ts: isoTime(first?.receivedMs ?? null),
        last_ts: isoTime(last?.receivedMs ?? null),
        is_complete: isComplete,
        pending_messages: laterMessages,
      }
    },

    async createReplay({ principal: { workspaceId }, path, body }: Call<'createReplay'>): Promise<Replay> {
      const found = await requireDestination(metadata, workspaceId, path)
      const range = await measured(found, body)
      if (range.messages === 0) throw validationError({ '': emptyText(range) })
      const { after, throughSeq } = range
      const requested = { ...body, ...totalOf(range), after, throughSeq }
      const result = await replays.create(refOf(workspaceId, found), requested)
      if (result.kind === 'not_found') throw new ApiError('destination_not_found')
      if (result.kind === 'full') throw new ApiError('too_many_replays')
      await laneCommands.parkedChanged(found.destination_id)
      return result.replay
    },

    async listReplays({ principal: { workspaceId }, path }: Call<'listReplays'>): Promise<ReplayList> {
      const found = await requireDestination(metadata, workspaceId, path)
      return { replays: await replays.list(refOf(workspaceId, found)) }
    },

    async getReplay({ principal: { workspaceId }, path }: Call<'getReplay'>): Promise<Replay> {
      const found = await requireDestination(metadata, workspaceId, path)
      const replay = await replays.get(refOf(workspaceId, found), path.replay_id)
      if (replay === null) throw new ApiError('replay_not_found')
      return replay
    },

    async cancelReplay({ principal: { workspaceId }, path }: Call<'cancelReplay'>): Promise<void> {
      const found = await requireDestination(metadata, workspaceId, path)
      const result = await replays.cancel(refOf(workspaceId, found), path.replay_id)
      if (result === 'not_found') throw new ApiError('replay_not_found')
      if (result === 'finished') throw new ApiError('replay_finished')
      await laneCommands.parkedChanged(found.destination_id)
    },
  }
}

function totalOf({ messages, records, bytes, first, last }: MessageRange) {
  return { messages, records, bytes, first_seq: first?.seq ?? null, last_seq: last?.seq ?? null }
}

function emptyText({ isComplete, laterMessages }: MessageRange): string {
  if (laterMessages > 0)
    return 'The lane has not passed the messages of this range yet: it delivers them by itself.'
  const why = isComplete ? '' : ' Messages from before the earliest one are no longer kept.'
  return `The range has no message that is kept.${why}`
}

function boundOf(field: 'from' | 'to', bound: number | string, end: 'earliest' | 'now'): RangeBound {
  if (typeof bound === 'number') return { at: 'seq', seq: bound }
  if (bound === end) return { at: end === 'earliest' ? 'start' : 'end' }
  const timeMs = isoMoment(bound)
  if (timeMs === null)
    throw validationError({
      [field]: `must be "${end}", a stream_seq, or an ISO 8601 time with its offset such as 2026-01-31T12:00:00Z`,
    })
  return { at: 'time', timeMs }
}

/** Rejects pull destinations, which have no delivery that could replay messages. */
function requirePushed(type: StoredDestination['destination_type']): void {
  if (!wordsOf(type).isPulled) return
  throw validationError({
    '': `A ${type} has a cursor of its own and no delivery that could replay messages: rewind it (POST …/rewind), or pull with after_seq.`,
  })
}
