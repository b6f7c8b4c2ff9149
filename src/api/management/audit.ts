/** The audit log, and its entries for changes that delivery makes. */
import { auditPage } from '../../contract/audit.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Actor } from '../../metadata/audit.ts'
import type { Metadata } from '../../metadata/store.ts'
import type { DestinationRef } from '../../metadata/tables.ts'
import type { Call } from './call.ts'

export function auditUseCases({ metadata }: { metadata: Pick<Metadata, 'audit'> }) {
  return {
    /** Shows only the entries of pipes that the caller can access. */
    async listAudit({ principal: { workspaceId, pipeIds }, query }: Call<'listAudit'>) {
      const { entries, next } = await metadata.audit.list(workspaceId, {
        limit: query.limit ?? auditPage.default,
        after: query.after ?? null,
        operation: query.operation ?? null,
        resourceId: query.resource_id ?? null,
        sinceMs: query.since === undefined ? null : Date.parse(query.since),
        pipeIds,
      })
      return { audit: entries, next }
    },
  }
}

/** The actor of a change. `address`: that of the client. */
export function actorOf({ by }: Principal, operation: string, address: string | null): Actor {
  switch (by.kind) {
    case 'key':
      return { kind: 'key', id: by.apiKeyId, name: null, address, operation }
    case 'session':
      return { kind: 'user', id: by.userId, name: null, address, operation }
    case 'local':
      return { kind: 'local', id: null, name: by.user, address: null, operation }
  }
}

/** Audits a command on a lane, which another thread executes. Its result is the outcome. */
export async function auditedOnLane<T extends object>(
  { audit }: Pick<Metadata, 'audit'>,
  operation: string,
  { workspaceId, destinationId, pipeId }: Required<DestinationRef>,
  work: () => Promise<T>,
): Promise<T> {
  return await audited(audit, { workspaceId, operation, resourceId: destinationId, pipeId }, work)
}

interface Command {
  workspaceId: string
  operation: string
  resourceId: string
  pipeId: string
  /** Facts of the entry that do not depend on the outcome. */
  facts?: object
}

/**
 * The entry is written with the status `requested` before the command begins, and the outcome is added once it is
 * known. A crash in between leaves the entry; there is never a change without one.
 */
export async function audited<T extends object>(
  audit: Metadata['audit'],
  { facts = {}, ...command }: Command,
  work: () => Promise<T>,
  outcomeOf: (result: T) => object = (result) => result,
): Promise<T> {
  const auditId = await audit.record({ ...command, before: null, after: { status: 'requested', ...facts } })
  const complete = (after: object) => audit.complete(command.workspaceId, auditId, { ...after, ...facts })
  try {
    const result = await work()
    await complete(outcomeOf(result))
    return result
  } catch (error) {
    await complete({ status: 'failed' })
    throw error
  }
}
