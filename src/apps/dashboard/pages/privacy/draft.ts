/**
 * The form state of a search, and its request. Pure. The values are personal data: they are only in the memory of the
 * page, never in its address, in the storage of the browser or in a command.
 */
import type { PrivacyKind, PrivacyRequest } from '../../../../contract/privacy.ts'

export interface KeyDraft {
  id: number
  path: string
  value: string
}

export interface SearchDraft {
  keys: readonly KeyDraft[]
  /** Empty: all pipes. */
  pipeId: string
}

export const emptyDraft: SearchDraft = { keys: [{ id: 0, path: '', value: '' }], pipeId: '' }

export function withKey(keys: readonly KeyDraft[]): KeyDraft[] {
  return [...keys, { id: Math.max(...keys.map(({ id }) => id)) + 1, path: '', value: '' }]
}

export function requestOf(kind: PrivacyKind, { keys, pipeId }: SearchDraft): PrivacyRequest {
  return {
    kind,
    keys: keys.map(({ path, value }) => ({ path: path.trim(), value })),
    ...(pipeId !== '' && { pipe_ids: [pipeId] }),
  }
}

/** Two drafts that search for the same records have the same text. */
export function searchText(draft: SearchDraft): string {
  return JSON.stringify(requestOf('find', draft))
}
