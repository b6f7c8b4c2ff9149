/** Workspaces. The operator creates them on the machine, never over HTTP. */
import { randomUUID } from 'node:crypto'
import { validationError } from '../contract/errors.ts'
import { insertApiKey } from './api-keys.ts'
import type { Audited } from './audit.ts'
import type { NewApiKey } from './key-tokens.ts'
import type { Connection } from './transactions.ts'

export interface WorkspaceStore {
  /** Creates the workspace and its first key. Throws ApiError `validation_error` if the name is taken or invalid. */
  create(name: string, key: NewApiKey): Promise<{ workspaceId: string; apiKeyId: string }>
  list(): Promise<{ workspaceId: string; name: string }[]>
}

const namePattern = /^[A-Za-z0-9_-]{1,100}$/

export function workspaces(db: Connection, now: () => number, inAudited: Audited): WorkspaceStore {
  return {
    create(name, key) {
      return inAudited(async (trx, record) => {
        if (!namePattern.test(name)) {
          throw validationError({ workspace_name: 'Use 1 to 100 letters, digits, hyphens or underscores.' })
        }
        const workspaceId = randomUUID()
        const last = await trx
          .selectFrom('workspaces')
          .select((eb) => eb.fn.max('creation_order').as('order'))
          .executeTakeFirst()
        const inserted = await trx
          .insertInto('workspaces')
          .values({
            workspace_id: workspaceId,
            workspace_name: name,
            workspace_created_ms: now(),
            creation_order: Number(last?.order ?? 0) + 1,
          })
          .onConflict((conflict) => conflict.doNothing())
          .executeTakeFirst()
        if (inserted.numInsertedOrUpdatedRows === 0n) {
          throw validationError({ workspace_name: 'A workspace with this name already exists.' })
        }
        const created = await insertApiKey(trx, workspaceId, key, now())
        const after = { workspace_name: name, first_key: created.api_key_id }
        const made = { operation: 'createWorkspace', resourceId: workspaceId, pipeId: null, before: null }
        await record({ ...made, workspaceId, after })
        return { workspaceId, apiKeyId: created.api_key_id }
      })
    },

    async list() {
      const rows = await db
        .selectFrom('workspaces')
        .select(['workspace_id', 'workspace_name'])
        .orderBy('creation_order')
        .orderBy('workspace_id')
        .execute()
      return rows.map((row) => ({ workspaceId: row.workspace_id, name: row.workspace_name }))
    },
  }
}
