/**
 * Allowed origins of a pipe. They are stored as sent and compared in lower case: `https://App.example` equals
 * `https://app.example`.
 */

import { randomUUID } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import type { AllowedOrigin } from '../contract/pipe.ts'
import type { Audited } from './audit.ts'
import { requirePipe } from './pipes.ts'
import { requireRoom, type WorkspaceQuotas } from './quotas.ts'
import { insertUnlessTaken, nextNumber } from './rows.ts'
import { normaliseId, type PipeRef } from './tables.ts'
import type { Connection } from './transactions.ts'

export interface OriginStore {
  list(pipe: PipeRef): Promise<AllowedOrigin[]>
  /** Throws `duplicate_origin` (case is ignored) and `pipe_not_found`. */
  add(pipe: PipeRef, originDomain: string): Promise<AllowedOrigin>
  remove(pipe: PipeRef, originId: string): Promise<boolean>
}

export function origins(db: Connection, quotas: WorkspaceQuotas, inAudited: Audited): OriginStore {
  return {
    list: ({ workspaceId, pipeId }) =>
      db
        .selectFrom('pipe_allowed_origins as origin')
        .innerJoin('pipes', 'pipes.pipe_id', 'origin.pipe_id')
        .select(['origin.pipe_allowed_origin_id', 'origin.origin_domain'])
        .where('pipes.workspace_id', '=', normaliseId(workspaceId))
        .where('pipes.pipe_id', '=', normaliseId(pipeId))
        .orderBy('origin.creation_order')
        .orderBy('origin.pipe_allowed_origin_id')
        .execute(),

    add: (pipe, originDomain) =>
      inAudited(async (trx, record) => {
        const { workspaceId } = pipe
        const ownerId = await requirePipe(trx, pipe)
        await requireRoom(trx, normaliseId(workspaceId), 'origins', quotas)
        const originId = randomUUID()
        const isInserted = await insertUnlessTaken(trx, 'pipe_allowed_origins', {
          pipe_allowed_origin_id: originId,
          pipe_id: ownerId,
          origin_domain: originDomain,
          origin_key: originDomain.toLowerCase(),
          creation_order: await nextNumber(trx, 'pipe_allowed_origins', 'creation_order', {
            pipe_id: ownerId,
          }),
        })
        if (!isInserted) throw new ApiError('duplicate_origin')
        const after = { pipe_allowed_origin_id: originId, origin_domain: originDomain }
        const added = { operation: 'addAllowedOrigin', resourceId: originId, pipeId: ownerId }
        await record({ workspaceId, ...added, before: null, after })
        return after
      }),

    remove: ({ workspaceId, pipeId }, originId) =>
      inAudited(async (trx, record) => {
        const [before] = await trx
          .deleteFrom('pipe_allowed_origins')
          .where('pipe_allowed_origin_id', '=', normaliseId(originId))
          .where('pipe_id', 'in', (eb) =>
            eb
              .selectFrom('pipes')
              .select('pipe_id')
              .where('workspace_id', '=', normaliseId(workspaceId))
              .where('pipe_id', '=', normaliseId(pipeId)),
          )
          .returning(['pipe_allowed_origin_id', 'origin_domain'])
          .execute()
        if (before === undefined) return false
        const [resourceId, pipe] = [normaliseId(originId), normaliseId(pipeId)]
        const removed = { operation: 'removeAllowedOrigin', resourceId, pipeId: pipe }
        await record({ workspaceId, ...removed, before, after: null })
        return true
      }),
  }
}
