/** The operations on parked records: list, edit, replay, discard (docs/dev/contract.md#parked-records). */
import { wordsOf } from '../../contract/destination-words.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import {
  type ParkedDiscarded,
  type ParkedList,
  type ParkedReplay,
  type ParkedReplayed,
  type ParkedSelection,
  parkedPage,
} from '../../contract/parked.ts'
import type { StoredDestination } from '../../metadata/destinations.ts'
import type { ParkedPosition, ParkedSelector } from '../../metadata/store.ts'
import { auditedOnLane } from './audit.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { refOf, requireDestination } from './lookup.ts'
import { bodyWithRecords, recordTextsAt } from './record-texts.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'laneCommands'>

export function parkedUseCases({ metadata, laneCommands }: Deps) {
  const { parked } = metadata
  return {
    async listParked({ principal: { workspaceId }, path, query }: Call<'listParked'>): Promise<ParkedList> {
      const found = await requireDestination(metadata, workspaceId, path)
      const page = await parked.list(refOf(workspaceId, found), {
        limit: query.limit ?? parkedPage.default,
        after: query.after === undefined ? null : positionOf(query.after),
        errorCode: query.error_code ?? null,
        reason: query.reason ?? null,
      })
      return { parked: page.parked, next: page.next && `${page.next.seq}.${page.next.index}` }
    },

    /**
     * Returns the response body itself (ParkedDetail): the text of the records must not pass through a parser again.
     */
    async getParked({ principal: { workspaceId }, path }: Call<'getParked'>): Promise<Buffer> {
      const destination = await requireDestination(metadata, workspaceId, path)
      const found = await parked.get(refOf(workspaceId, destination), path.parked_id)
      if (found === null) throw new ApiError('parked_not_found')
      const { record, history, recordTexts } = found
      return bodyWithRecords({ ...record, history }, recordTexts)
    },

    async replayParked({ principal, path, body, bodyBytes }: Call<'replayParked'>): Promise<ParkedReplay> {
      const { workspaceId } = principal
      const { parked_id } = path
      const found = await requireDestination(metadata, workspaceId, path)
      requirePushed(found)
      const isEdited = body.records !== undefined && bodyBytes !== undefined
      const texts = isEdited ? recordTextsAt(bodyBytes, 'records') : null
      const result = await parked.replay(refOf(workspaceId, found), parked_id, texts)
      if (result.kind === 'not_found') throw new ApiError('parked_not_found')
      if (result.kind === 'replaying') throw new ApiError('parked_replaying')
      if (result.kind === 'too_many') {
        throw validationError({ records: `must have at most ${result.most} records, as many as are parked` })
      }
      await laneCommands.parkedChanged(found.destination_id)
      return { parked_id, replays: result.replays }
    },

    async replayManyParked({
      principal: { workspaceId },
      path,
      body,
    }: Call<'replayManyParked'>): Promise<ParkedReplayed> {
      const found = await requireDestination(metadata, workspaceId, path)
      const which = selectionOf(body)
      requirePushed(found)
      return await auditedOnLane(metadata, 'replayManyParked', refOf(workspaceId, found), async () => {
        const replayed = await parked.replayMany(refOf(workspaceId, found), which)
        await laneCommands.parkedChanged(found.destination_id)
        return { replayed }
      })
    },

    async deleteParked({ principal: { workspaceId }, path }: Call<'deleteParked'>): Promise<void> {
      const found = await requireDestination(metadata, workspaceId, path)
      const result = await parked.discard(refOf(workspaceId, found), path.parked_id)
      if (result === 'not_found') throw new ApiError('parked_not_found')
      if (result === 'replaying') throw new ApiError('parked_replaying')
      await laneCommands.parkedChanged(found.destination_id)
    },

    async discardManyParked({
      principal: { workspaceId },
      path,
      body,
    }: Call<'discardManyParked'>): Promise<ParkedDiscarded> {
      const found = await requireDestination(metadata, workspaceId, path)
      const which = selectionOf(body)
      return await auditedOnLane(metadata, 'discardManyParked', refOf(workspaceId, found), async () => {
        const discarded = await parked.discardMany(refOf(workspaceId, found), which)
        await laneCommands.parkedChanged(found.destination_id)
        return { discarded }
      })
    },
  }
}

function selectionOf({ ids, all, error_code, reason }: ParkedSelection): ParkedSelector {
  if ((ids === undefined) === (all === undefined)) {
    throw validationError({ '': 'Send either ids or all: true.' })
  }
  return { ids: ids ?? null, errorCode: error_code ?? null, reason: reason ?? null }
}

/** Rejects pull destinations, which have no delivery that could replay a record. */
function requirePushed({ destination_type }: StoredDestination): void {
  if (!wordsOf(destination_type).isPulled) return
  throw validationError({
    '': `A ${destination_type} cannot replay parked records: read them, or rewind the lane to before their message.`,
  })
}

/** `next`: a text that matches `parkedNextPattern`. */
function positionOf(next: string): ParkedPosition {
  const [seq, index] = next.split('.')
  return { seq: Number(seq), index: Number(index) }
}
