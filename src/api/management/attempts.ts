/** The delivery attempts of a lane, as saved by delivery. */
import { attemptPage } from '../../contract/attempts.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { refOf, requireDestination } from './lookup.ts'

export function attemptUseCases({ metadata }: Pick<ManagementDeps, 'metadata'>) {
  return {
    /** Returns the response body itself (AttemptList): attempts are stored as the JSON that is shown. */
    async listAttempts({ principal: { workspaceId }, path, query }: Call<'listAttempts'>): Promise<Buffer> {
      const found = await requireDestination(metadata, workspaceId, path)
      const { texts, next } = await metadata.attempts(refOf(workspaceId, found), {
        limit: query.limit ?? attemptPage.default,
        before: query.before ?? null,
        outcome: query.outcome ?? null,
        sinceMs: query.since === undefined ? null : Date.parse(query.since),
      })
      return Buffer.from(`{"attempts":[${texts.join(',')}],"next":${next}}`)
    },
  }
}
