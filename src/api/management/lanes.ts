/** The commands on a lane: skip, retry, show the blocking message, rewind (docs/dev/contract.md#lane-commands). */
import { blockingPage, mostRecords } from '../../contract/blocking-page.ts'
import { RewindRequest } from '../../contract/destination-requests.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import { type FieldErrors, requireObject, throwIfErrors, validate } from '../../contract/validate.ts'
import type { BlockingMessage, BlockingPage, RewindTarget } from '../../delivery/delivery.ts'
import { auditedOnLane } from './audit.ts'
import type { ManagementDeps } from './deps.ts'
import { requireDestination } from './lookup.ts'
import { wholeNumber } from './query-parameters.ts'

export function laneUseCases({
  metadata,
  laneViews,
  laneCommands,
}: Pick<ManagementDeps, 'metadata' | 'laneViews' | 'laneCommands'>) {
  const laneOf = async (workspaceId: string, pipeId: string, destinationId: string) =>
    (await requireDestination(metadata, workspaceId, pipeId, destinationId)).destination_id
  return {
    async skipBlockingMessage(workspaceId: string, pipeId: string, destinationId: string) {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      return await auditedOnLane(metadata, workspaceId, found, 'skipBlockingMessage', async () => {
        const skipped = await laneCommands.skip(found.destination_id)
        if (skipped === 'parked_full') throw new ApiError('parked_full')
        return { skipped, status: skipped ? 'skipped' : 'no_blocking_message' }
      })
    },

    async retryNow(workspaceId: string, pipeId: string, destinationId: string) {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      return await auditedOnLane(metadata, workspaceId, found, 'retryNow', async () => {
        const msgId = await laneCommands.retryNow(found.destination_id)
        const retried = msgId !== null
        return { retried, msg_id: msgId, status: retried ? 'retried' : 'no_blocking_message' }
      })
    },

    /** The body itself: the records' own text must not pass through a parser again. */
    async getBlockingMessage(
      workspaceId: string,
      pipeId: string,
      destinationId: string,
      query: URLSearchParams,
    ): Promise<Buffer> {
      const lane = await laneOf(workspaceId, pipeId, destinationId)
      const page = pageOf(query)
      const message = await laneViews.blockingMessage(lane, page)
      if (message === null) throw new ApiError('no_blocking_message')
      if (page.from >= message.records_count) {
        throw validationError({ from: `must be less than the message's ${message.records_count} records` })
      }
      return blockingMessageBody(message)
    },

    async rewindDestination(workspaceId: string, pipeId: string, destinationId: string, body: unknown) {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      const { to } = validate(RewindRequest, requireObject(body))
      const target = rewindTarget(to)
      return await auditedOnLane(metadata, workspaceId, found, 'rewindDestination', async () => {
        const result = await laneCommands.rewind(found.destination_id, target)
        if (result.kind === 'rewound') return { cursor_seq: result.cursorSeq }
        throw validationError({
          to: `is after the lane's cursor (${result.cursorSeq}): a rewind only goes back; skip moves past a blocking message.`,
        })
      })
    },
  }
}

function pageOf(query: URLSearchParams): BlockingPage {
  const errors: FieldErrors = {}
  const { default: few, max } = blockingPage
  const from = wholeNumber(query.get('from'), 'from', { min: 0, max: mostRecords }, errors) ?? 0
  const limit = wholeNumber(query.get('limit'), 'limit', { min: 1, max }, errors) ?? few
  throwIfErrors(errors)
  return { from, limit }
}

/** `{msg_id, …, failing, records, truncated, next}` with each record's text as it was sent. */
function blockingMessageBody({ recordTexts, truncated, next, ...rest }: BlockingMessage): Buffer {
  const head = JSON.stringify(rest).slice(0, -1)
  const tail = JSON.stringify({ truncated, next }).slice(1)
  return Buffer.from(`${head},"records":[${recordTexts.join(',')}],${tail}`)
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
