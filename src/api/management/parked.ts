/** The operations on parked records: list, edit, replay, discard (docs/dev/contract.md#parked-records). */
import { ApiError, validationError } from '../../contract/errors.ts'
import {
  type ParkedDiscarded,
  type ParkedList,
  type ParkedReason,
  type ParkedReplay,
  type ParkedReplayed,
  ParkedReplayRequest,
  ParkedSelection,
  parkedPage,
  parkedReasons,
} from '../../contract/parked.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { isUuid } from '../../contract/uuid.ts'
import { type FieldErrors, requireObject, throwIfErrors, validate } from '../../contract/validate.ts'
import type { StoredDestination } from '../../metadata/destinations.ts'
import type { ParkedPlace, ParkedQuery, ParkedSelector } from '../../metadata/store.ts'
import { auditedOnLane } from './audit.ts'
import type { ManagementDeps } from './deps.ts'
import { requireDestination } from './lookup.ts'

/** By operationId. Ids as the path has them: what is no UUID or another's gives the resource's 404. */
export interface ParkedUseCases {
  /** `query`: `limit`, `after`, `error_code`, `reason` as sent, unchecked. */
  listParked(
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    query: URLSearchParams,
  ): Promise<ParkedList>
  /** The body itself (ParkedDetail): the records' own text must not pass through a parser again. */
  getParked(workspaceId: string, pipeId: string, destinationId: string, parkedId: string): Promise<Buffer>
  /**
   * `body`: parsed, unchecked (ParkedReplayRequest). `recordTexts`: of its `records` each one's own text on one line; null: it has
   * none that are objects, so that either it replays what is stored or the check of `body` throws.
   */
  replayParked(
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    parkedId: string,
    body: unknown,
    recordTexts: readonly string[] | null,
  ): Promise<ParkedReplay>
  /** `body`: ParkedSelection, unchecked. */
  replayManyParked(
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    body: unknown,
  ): Promise<ParkedReplayed>
  deleteParked(workspaceId: string, pipeId: string, destinationId: string, parkedId: string): Promise<void>
  /** `body`: ParkedSelection, unchecked. */
  discardManyParked(
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    body: unknown,
  ): Promise<ParkedDiscarded>
}

type Deps = Pick<ManagementDeps, 'metadata' | 'laneCommands'>

export function parkedUseCases({ metadata, laneCommands }: Deps): ParkedUseCases {
  const { parked } = metadata
  const find = async (workspaceId: string, pipeId: string, destinationId: string) =>
    await requireDestination(metadata, workspaceId, pipeId, destinationId)
  return {
    async listParked(workspaceId, pipeId, destinationId, query) {
      const { destination_id } = await find(workspaceId, pipeId, destinationId)
      const page = await parked.list(workspaceId, destination_id, pageOf(query))
      return { parked: page.parked, next: page.next && `${page.next.seq}.${page.next.index}` }
    },

    async getParked(workspaceId, pipeId, destinationId, parkedId) {
      const { destination_id } = await find(workspaceId, pipeId, destinationId)
      const found = isUuid(parkedId) ? await parked.get(workspaceId, destination_id, parkedId) : null
      if (found === null) throw new ApiError('parked_not_found')
      const { record, history, recordTexts } = found
      const head = JSON.stringify({ ...record, history }).slice(0, -1)
      return Buffer.from(`${head},"records":[${recordTexts.join(',')}]}`)
    },

    async replayParked(workspaceId, pipeId, destinationId, parkedId, body, recordTexts) {
      const found = await find(workspaceId, pipeId, destinationId)
      const { records } = validate(ParkedReplayRequest, requireObject(body ?? {}))
      requirePushed(found)
      if (!isUuid(parkedId)) throw new ApiError('parked_not_found')
      const texts = records === undefined ? null : recordTexts
      const result = await parked.replay(workspaceId, found.destination_id, parkedId, texts)
      if (result.kind === 'not_found') throw new ApiError('parked_not_found')
      if (result.kind === 'replaying') throw new ApiError('parked_replaying')
      if (result.kind === 'too_many') {
        throw validationError({ records: `must be at most ${result.most}: as many as are parked` })
      }
      await laneCommands.parkedChanged(found.destination_id)
      return { parked_id: parkedId.toLowerCase(), replays: result.replays }
    },

    async replayManyParked(workspaceId, pipeId, destinationId, body) {
      const found = await find(workspaceId, pipeId, destinationId)
      const which = selectionOf(body)
      requirePushed(found)
      return await auditedOnLane(metadata, workspaceId, found, 'replayManyParked', async () => {
        const replayed = await parked.replayMany(workspaceId, found.destination_id, which)
        await laneCommands.parkedChanged(found.destination_id)
        return { replayed }
      })
    },

    async deleteParked(workspaceId, pipeId, destinationId, parkedId) {
      const { destination_id } = await find(workspaceId, pipeId, destinationId)
      const result = isUuid(parkedId)
        ? await parked.discard(workspaceId, destination_id, parkedId)
        : 'not_found'
      if (result === 'not_found') throw new ApiError('parked_not_found')
      if (result === 'replaying') throw new ApiError('parked_replaying')
      await laneCommands.parkedChanged(destination_id)
    },

    async discardManyParked(workspaceId, pipeId, destinationId, body) {
      const found = await find(workspaceId, pipeId, destinationId)
      const which = selectionOf(body)
      return await auditedOnLane(metadata, workspaceId, found, 'discardManyParked', async () => {
        const discarded = await parked.discardMany(workspaceId, found.destination_id, which)
        await laneCommands.parkedChanged(found.destination_id)
        return { discarded }
      })
    },
  }
}

function selectionOf(body: unknown): ParkedSelector {
  const { ids, all, error_code } = validate(ParkedSelection, requireObject(body))
  if ((ids === undefined) === (all === undefined)) {
    throw validationError({ '': 'Give either ids or all: true.' })
  }
  return { ids: ids ?? null, errorCode: error_code ?? null }
}

/** A pull destination has nothing that could deliver by itself. */
function requirePushed({ destination_type }: StoredDestination): void {
  if (destination_type !== 'destination_pull') return
  throw validationError({
    '': 'A destination_pull delivers nothing by itself: read what is parked, or rewind the lane to before its message.',
  })
}

function pageOf(query: URLSearchParams): ParkedQuery {
  const errors: FieldErrors = {}
  const limitText = query.get('limit')
  const limit = /^\d{1,6}$/.test(limitText ?? '') ? Number(limitText) : parkedPage.default
  if (limitText !== null && (limit < 1 || limit > parkedPage.max || String(limit) !== limitText))
    errors.limit = `must be a whole number from 1 to ${parkedPage.max}`
  const afterText = query.get('after')
  const after = afterText === null ? null : placeOf(afterText)
  if (afterText !== null && after === null) errors.after = 'must be the `next` of the page before'
  const errorCode = query.get('error_code')
  if (errorCode !== null && (errorCode === '' || errorCode.length > resourceLimits.errorCodeCharacters))
    errors.error_code = `must have 1 to ${resourceLimits.errorCodeCharacters} characters`
  const reason = query.get('reason')
  if (reason !== null && !isReason(reason)) errors.reason = `must be one of ${parkedReasons.join(', ')}`
  throwIfErrors(errors)
  return { limit, after, errorCode, reason: reason !== null && isReason(reason) ? reason : null }
}

function isReason(text: string): text is ParkedReason {
  return parkedReasons.some((reason) => reason === text)
}

function placeOf(text: string): ParkedPlace | null {
  const [, seq, index] = /^(\d{1,15})\.(-1|\d{1,15})$/.exec(text) ?? []
  return seq === undefined || index === undefined ? null : { seq: Number(seq), index: Number(index) }
}
