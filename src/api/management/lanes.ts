/** Commands on a lane: skip, retry, show the blocking message, rewind (docs/dev/contract.md#lane-commands). */
import { blockingPage } from '../../contract/blocking-page.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import type { RewindTarget } from '../../delivery/delivery.ts'
import { auditedOnLane } from './audit.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { refOf, requireDestination } from './lookup.ts'
import { bodyWithRecords } from './record-texts.ts'

export function laneUseCases({
  metadata,
  laneViews,
  laneCommands,
}: Pick<ManagementDeps, 'metadata' | 'laneViews' | 'laneCommands'>) {
  return {
    async skipBlockingMessage({ principal: { workspaceId }, path }: Call<'skipBlockingMessage'>) {
      const found = await requireDestination(metadata, workspaceId, path)
      return await auditedOnLane(metadata, 'skipBlockingMessage', refOf(workspaceId, found), async () => {
        const skipped = await laneCommands.skip(found.destination_id)
        if (skipped === 'parked_full') throw new ApiError('parked_full')
        return { skipped, status: skipped ? 'skipped' : 'no_blocking_message' }
      })
    },

    async retryNow({ principal: { workspaceId }, path }: Call<'retryNow'>) {
      const found = await requireDestination(metadata, workspaceId, path)
      return await auditedOnLane(metadata, 'retryNow', refOf(workspaceId, found), async () => {
        const msgId = await laneCommands.retryNow(found.destination_id)
        const retried = msgId !== null
        return { retried, msg_id: msgId, status: retried ? 'retried' : 'no_blocking_message' }
      })
    },

    /** Returns the response body itself: the text of the records must not pass through a parser again. */
    async getBlockingMessage({ principal, path, query }: Call<'getBlockingMessage'>): Promise<Buffer> {
      const { destination_id } = await requireDestination(metadata, principal.workspaceId, path)
      const { from = 0, limit = blockingPage.default } = query
      const message = await laneViews.blockingMessage(destination_id, { from, limit })
      if (message === null) throw new ApiError('no_blocking_message')
      if (from >= message.records_count) {
        throw validationError({
          from: `must be less than ${message.records_count}, the number of records of the message`,
        })
      }
      const { recordTexts, truncated, next, ...head } = message
      return bodyWithRecords(head, recordTexts, { truncated, next })
    },

    async rewindDestination({ principal: { workspaceId }, path, body }: Call<'rewindDestination'>) {
      const found = await requireDestination(metadata, workspaceId, path)
      const target = rewindTarget(body.to)
      return await auditedOnLane(metadata, 'rewindDestination', refOf(workspaceId, found), async () => {
        const result = await laneCommands.rewind(found.destination_id, target)
        if (result.kind === 'rewound') return { cursor_seq: result.cursorSeq }
        throw validationError({
          to: `is after the lane's cursor (${result.cursorSeq}): a rewind only goes back. To move past a blocking message, use skip.`,
        })
      })
    },
  }
}

const isoTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/i

function rewindTarget(to: number | string): RewindTarget {
  if (typeof to === 'number') return { to: 'seq', seq: to }
  if (to === 'earliest') return { to: 'earliest' }
  const timeMs = isoMoment(to)
  if (timeMs === null)
    throw validationError({
      to: 'must be "earliest", a stream_seq, or an ISO 8601 time with its offset such as 2026-01-31T12:00:00Z',
    })
  return { to: 'time', timeMs }
}

/** Returns the time of an ISO 8601 text with its offset, in ms since the epoch; null for another text. */
export function isoMoment(text: string): number | null {
  const timeMs = isoTime.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(timeMs) ? null : timeMs
}
