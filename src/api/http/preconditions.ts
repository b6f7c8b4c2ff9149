/** `ETag` and `If-Match` of management (docs/dev/contract.md#concurrent-changes), for all versioned operations. */
import { validationError } from '../../contract/errors.ts'
import type { Operation, VersionedResource } from '../../contract/operation.ts'
import type { Principal } from '../../contract/principal.ts'

/** Null: the operation is not about a resource with a version. */
export function versionedResource(
  { versioned }: Pick<Operation, 'versioned'>,
  {
    principal: { workspaceId },
    path,
  }: { principal: Principal; path: { pipe_id?: string; destination_id?: string } },
): VersionedResource | null {
  const { pipe_id: pipeId = '', destination_id: destinationId = '' } = path
  switch (versioned) {
    case undefined:
      return null
    case 'alerts':
      return { kind: versioned, workspaceId }
    case 'pipe':
      return { kind: versioned, workspaceId, pipeId }
    case 'destination':
      return { kind: versioned, workspaceId, pipeId, destinationId }
  }
}

/**
 * The versions that `If-Match` names. Null: any version. Throws `validation_error`. A weak tag counts as a strong
 * one, because proxies that compress a response weaken its tag.
 */
export function expectedVersions(header: string | undefined): string[] | null {
  const text = header?.trim()
  if (text === undefined || text === '*') return null
  const tags = text.split(',').map((tag) => /^(?:W\/)?"([^"]*)"$/.exec(tag.trim())?.[1])
  const named = tags.filter((tag) => tag !== undefined)
  if (named.length === tags.length) return named
  throw validationError({ 'If-Match': 'must be * or the ETag of an earlier response, with its quotes' })
}

export function etag(version: string | null): [name: string, value: string][] {
  return version === null ? [] : [['ETag', `"${version}"`]]
}
