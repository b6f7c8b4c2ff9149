/** The operations on records parked at a pipe: list, edit, replay, discard (docs/dev/contract.md#records-parked-at-the-pipe). */
import { ApiError, validationError } from '../../contract/errors.ts'
import { type ParkedDiscarded, parkedPage } from '../../contract/parked.ts'
import type {
  PipeParkedList,
  PipeParkedRecord,
  PipeParkedReplay,
  PipeParkedReplayed,
  PipeParkedSelection,
} from '../../contract/pipe-parked.ts'
import type { Principal } from '../../contract/principal.ts'
import type { PipeParkedPosition, PipeParkedSelector } from '../../metadata/pipe-parked-port.ts'
import type { PipeRef } from '../../metadata/tables.ts'
import { audited } from './audit.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { requirePipe } from './lookup.ts'
import { bodyWithRecords, recordTextsAt } from './record-texts.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'pipeReplays'>

export function pipeParkedUseCases(deps: Deps) {
  const { metadata, pipeReplays } = deps
  const { pipeParked } = metadata
  return {
    async listPipeParked({ principal, path, query }: Call<'listPipeParked'>): Promise<PipeParkedList> {
      const pipe = await pipeOf(deps, principal, path)
      const page = await pipeParked.list(pipe, {
        limit: query.limit ?? parkedPage.default,
        after: query.after === undefined ? null : positionOf(query.after),
        errorPath: query.error_path ?? null,
      })
      const next = page.next && `${page.next.msgId}.${page.next.index}`
      return { parked: page.parked, count: await pipeParked.count(pipe), next }
    },

    /** Returns the response body itself (PipeParkedDetail): the record's text must not pass through a parser again. */
    async getPipeParked({ principal, path }: Call<'getPipeParked'>): Promise<Buffer> {
      const found = await pipeParked.get(await pipeOf(deps, principal, path), path.parked_id)
      if (found === null) throw new ApiError('parked_not_found')
      return bodyWithRecords(found.record, [found.text.text])
    },

    async editPipeParked({ principal, path, bodyBytes }: Call<'editPipeParked'>): Promise<PipeParkedRecord> {
      const pipe = await pipeOf(deps, principal, path)
      await edit(deps, pipe, path.parked_id, recordTextOf(bodyBytes))
      const found = await pipeParked.get(pipe, path.parked_id)
      if (found === null) throw new ApiError('parked_not_found')
      return found.record
    },

    async replayPipeParked({
      principal,
      path,
      body,
      bodyBytes,
    }: Call<'replayPipeParked'>): Promise<PipeParkedReplay> {
      const pipe = await pipeOf(deps, principal, path)
      const { parked_id } = path
      const { force = false } = body
      const isEdited = body.records !== undefined
      if (isEdited) await edit(deps, pipe, parked_id, recordTextOf(bodyBytes))
      else if ((await pipeParked.get(pipe, parked_id)) === null) throw new ApiError('parked_not_found')
      const command = commandOn(pipe, 'replayPipeParked', { parked_id, is_edited: isEdited, force })
      return await audited(metadata.audit, command, async () => ({
        parked_id,
        msg_id: await pipeReplays.replay(pipe, parked_id, force),
      }))
    },

    async replayManyPipeParked({
      principal,
      path,
      body,
    }: Call<'replayManyPipeParked'>): Promise<PipeParkedReplayed> {
      const pipe = await pipeOf(deps, principal, path)
      const which = selectionOf(body)
      const { force = false } = body
      const command = commandOn(pipe, 'replayManyPipeParked', { force })
      return await audited(metadata.audit, command, () => pipeReplays.replayMany(pipe, which, force))
    },

    async deletePipeParked({ principal, path }: Call<'deletePipeParked'>): Promise<void> {
      const result = await pipeParked.discard(await pipeOf(deps, principal, path), path.parked_id)
      if (result === 'not_found') throw new ApiError('parked_not_found')
      if (result === 'replaying') throw new ApiError('parked_replaying')
    },

    async discardManyPipeParked({
      principal,
      path,
      body,
    }: Call<'discardManyPipeParked'>): Promise<ParkedDiscarded> {
      const pipe = await pipeOf(deps, principal, path)
      const which = selectionOf(body)
      const command = commandOn(pipe, 'discardManyPipeParked', {})
      return await audited(metadata.audit, command, async () => ({
        discarded: await pipeParked.discardMany(pipe, which),
      }))
    },
  }
}

async function pipeOf(
  { metadata }: Deps,
  { workspaceId }: Principal,
  path: { pipe_id: string },
): Promise<PipeRef> {
  const { pipe_id: pipeId } = await requirePipe(metadata, workspaceId, path)
  return { workspaceId, pipeId }
}

function commandOn({ workspaceId, pipeId }: PipeRef, operation: string, facts: object) {
  return { workspaceId, operation, resourceId: pipeId, pipeId, facts }
}

async function edit(
  { metadata, pipeReplays }: Deps,
  pipe: PipeRef,
  parkedId: string,
  text: string,
): Promise<void> {
  const faults = await pipeReplays.faultsOf(pipe, text)
  const result = await metadata.pipeParked.edit(pipe, parkedId, { text, faults })
  if (result === 'not_found') throw new ApiError('parked_not_found')
  if (result === 'replaying') throw new ApiError('parked_replaying')
}

/** The body has one record: its schema says so. */
function recordTextOf(bodyBytes: Buffer | undefined): string {
  const [text] = (bodyBytes === undefined ? null : recordTextsAt(bodyBytes, 'records')) ?? []
  if (text === undefined) throw validationError({ records: 'must have one record' })
  return text
}

function selectionOf({ ids, all, error_path }: PipeParkedSelection): PipeParkedSelector {
  if ((ids === undefined) === (all === undefined)) {
    throw validationError({ '': 'Send either ids or all: true.' })
  }
  return { ids: ids ?? null, errorPath: error_path ?? null }
}

/** `next`: a text that matches `pipeParkedNextPattern`. */
function positionOf(next: string): PipeParkedPosition {
  const [msgId = '', index] = next.split('.')
  return { msgId, index: Number(index) }
}
