/** What people do to a lane: skip, retry, look at what blocks it, rewind (spec "States"; contract "Management bodies"). */
import { RewindRequest } from '../contract/destination-requests.ts'
import { ApiError, validationError } from '../contract/errors.ts'
import { requireObject, validate } from '../contract/validate.ts'
import type { BlockingMessage, RewindTarget } from '../delivery/delivery.ts'
import { auditedOnLane } from './audit.ts'
import type { ManagementDeps } from './deps.ts'
import { requireDestination } from './lookup.ts'

export function laneUseCases({ metadata, delivery }: Pick<ManagementDeps, 'metadata' | 'delivery'>) {
  const laneOf = async (workspaceId: string, pipeId: string, destinationId: string) =>
    (await requireDestination(metadata, workspaceId, pipeId, destinationId)).destination_id
  return {
    async skipBlockingMessage(workspaceId: string, pipeId: string, destinationId: string) {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      return await auditedOnLane(metadata, workspaceId, found, 'skipBlockingMessage', async () => {
        const skipped = await delivery.skip(found.destination_id)
        if (skipped === 'parked_full') throw new ApiError('parked_full')
        return { skipped, status: skipped ? 'skipped' : 'no_blocking_message' }
      })
    },

    async retryNow(workspaceId: string, pipeId: string, destinationId: string) {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      return await auditedOnLane(metadata, workspaceId, found, 'retryNow', async () => {
        const msgId = await delivery.retryNow(found.destination_id)
        const retried = msgId !== null
        return { retried, msg_id: msgId, status: retried ? 'retried' : 'no_blocking_message' }
      })
    },

    /** The body itself: the records' own text must not pass through a parser again. */
    async getBlockingMessage(workspaceId: string, pipeId: string, destinationId: string): Promise<Buffer> {
      const message = await delivery.blockingMessage(await laneOf(workspaceId, pipeId, destinationId))
      if (message === null) throw new ApiError('no_blocking_message')
      return blockingMessageBody(message)
    },

    async rewindDestination(workspaceId: string, pipeId: string, destinationId: string, body: unknown) {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      const { to } = validate(RewindRequest, requireObject(body))
      const target = rewindTarget(to)
      return await auditedOnLane(metadata, workspaceId, found, 'rewindDestination', async () => {
        const result = await delivery.rewind(found.destination_id, target)
        if (result.kind === 'rewound') return { cursor_seq: result.cursorSeq }
        throw validationError({
          to: `is after the lane's cursor (${result.cursorSeq}): a rewind only goes back; skip moves past a blocking message.`,
        })
      })
    },
  }
}

/** `{msg_id, stream_seq, received_ts, records_count, records, truncated}` with each record's text as it was sent. */
function blockingMessageBody({ recordTexts, truncated, ...rest }: BlockingMessage): Buffer {
  const head = JSON.stringify(rest).slice(0, -1)
  return Buffer.from(`${head},"records":[${recordTexts.join(',')}],"truncated":${truncated}}`)
}

const isoTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/i

function rewindTarget(to: number | string): RewindTarget {
  if (typeof to === 'number') return { to: 'seq', seq: to }
  if (to === 'earliest') return { to: 'earliest' }
  const timeMs = isoTime.test(to) ? Date.parse(to) : Number.NaN
  if (Number.isNaN(timeMs))
    throw validationError({
      to: 'must be "earliest", a stream_seq, or an ISO 8601 time with its offset such as 2026-01-31T12:00:00Z',
    })
  return { to: 'time', timeMs }
}
