/** Workspaces. The operator creates them on the machine, never over HTTP. */

import { randomUUID } from 'node:crypto'
import { validationError } from '../contract/errors.ts'
import { insertApiKey } from './api-keys.ts'
import type { Audited } from './audit.ts'
import type { NewApiKey } from './key-tokens.ts'
import { insertUnlessTaken, nextNumber } from './rows.ts'
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
        const isInserted = await insertUnlessTaken(trx, 'workspaces', {
          workspace_id: workspaceId,
          workspace_name: name,
          workspace_created_ms: now(),
          creation_order: await nextNumber(trx, 'workspaces', 'creation_order', {}),
        })
        if (!isInserted) {
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
      return await db
        .selectFrom('workspaces')
        .select(['workspace_id as workspaceId', 'workspace_name as name'])
        .orderBy('creation_order')
        .orderBy('workspace_id')
        .execute()
    },
  }
}
