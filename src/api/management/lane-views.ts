/** The delivery attempts of a lane, and the drift of its destination, as last saved by delivery. */
import { attemptPage } from '../../contract/attempts.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import type { Drift } from '../../contract/drift.ts'
import { mappingHash } from '../../contract/mapping-hash.ts'
import { isoTime } from '../../metadata/tables.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { refOf, requireDestination, requirePipe } from './lookup.ts'

export function laneViewUseCases({ metadata }: Pick<ManagementDeps, 'metadata'>) {
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

    async getDrift({ principal: { workspaceId }, path }: Call<'getDrift'>): Promise<{ drift: Drift }> {
      const found = await requireDestination(metadata, workspaceId, path)
      const { pipe_ingest_ts_field } = await requirePipe(metadata, workspaceId, found)
      const none = { since_ts: null, records_seen: 0, keys: [], other_keys: 0, unfilled_columns: [] }
      if (!wordsOf(found.destination_type).isDatabase) return { drift: { mapping: 'none', ...none } }
      if (found.columns.length === 0) return { drift: { mapping: 'by_name', ...none } }
      const saved = await metadata.drift({ workspaceId, destinationId: found.destination_id })
      // The stored drift belongs to other columns: delivery has seen no record since they were changed.
      if (saved?.mappingHash !== mappingHash(found.columns, pipe_ingest_ts_field))
        return { drift: { mapping: 'columns', ...none } }
      const { since_ms, records, keys, other_keys, unfilled } = saved.state
      const drift: Drift = {
        mapping: 'columns',
        since_ts: isoTime(since_ms),
        records_seen: records,
        other_keys,
        keys: [...keys]
          .sort((a, b) => b.records - a.records)
          .map(({ first_ms, last_ms, ...key }) => ({
            ...key,
            first_seen_ts: isoTime(first_ms),
            last_seen_ts: isoTime(last_ms),
          })),
        unfilled_columns: records === 0 ? [] : unfilled,
      }
      return { drift }
    },
  }
}
