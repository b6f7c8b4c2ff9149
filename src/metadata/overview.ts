/**
 * Reads metadata for an overview from one snapshot, with a few indexed statements for any number of pipes. Of the
 * configs only URLs are unsealed, and shown without their secrets.
 */
import { wordsOf } from '../contract/destination-words.ts'
import type { OverviewLane, OverviewPipe } from '../contract/overview.ts'
import { noUsageCounts } from '../contract/usage.ts'
import { urlConfig } from './destination-config.ts'
import type { Sealer } from './secrets.ts'
import { isoTime, normaliseId } from './tables.ts'
import { type Connection, inSnapshot } from './transactions.ts'
import { countsByPipe } from './usage.ts'

export type OverviewDestination = Omit<OverviewLane, 'lane'>

/** The part of an overview that metadata stores. */
export type StoredOverviewPipe = Pick<
  OverviewPipe,
  | 'pipe_id'
  | 'pipe_name'
  | 'pipe_description'
  | 'pipe_status'
  | 'schema_on_mismatch'
  | 'usage_today'
  | 'last_ingest_ts'
> & { destinations: OverviewDestination[] }

/**
 * Returns every pipe by name, with its destinations and its usage since `sinceMs`. The cost does not depend on the
 * number of messages.
 */
export type StoredOverview = (workspaceId: string, sinceMs: number) => Promise<StoredOverviewPipe[]>

export function overview(db: Connection, sealer: Sealer): StoredOverview {
  return (workspaceId, sinceMs) =>
    inSnapshot(db, async (trx) => {
      const id = normaliseId(workspaceId)
      const usage = await countsByPipe(trx, id, sinceMs)
      const destinations = await destinationsOf(trx, sealer, id)
      const pipes = await pipesOf(trx, id)
      return pipes.map(({ last_ingest_ms, schema_on_mismatch, ...pipe }) => ({
        ...pipe,
        ...(schema_on_mismatch === null ? {} : { schema_on_mismatch }),
        last_ingest_ts: last_ingest_ms === null ? null : isoTime(last_ingest_ms),
        usage_today: usage.get(pipe.pipe_id) ?? noUsageCounts,
        destinations: destinations.get(pipe.pipe_id) ?? [],
      }))
    })
}

function pipesOf(trx: Connection, workspaceId: string) {
  return (
    trx
      .selectFrom('pipes')
      .select(['pipe_id', 'pipe_name', 'pipe_description', 'pipe_status'])
      // The schema itself can have 64 KiB.
      .select((eb) =>
        eb
          .case()
          .when('pipe_schema', 'is not', null)
          .then(eb.ref('pipe_schema_on_mismatch'))
          .end()
          .as('schema_on_mismatch'),
      )
      // Reads the newest hour of each pipe by its key, because a pipe can have hundreds of hours.
      .select((eb) =>
        eb
          .selectFrom('usage_hours as hour')
          .select('hour.last_ingest_ms')
          .whereRef('hour.pipe_id', '=', 'pipes.pipe_id')
          .where('hour.last_ingest_ms', 'is not', null)
          .orderBy('hour.hour_ms', 'desc')
          .limit(1)
          .as('last_ingest_ms'),
      )
      .where('workspace_id', '=', workspaceId)
      .orderBy('pipe_name')
      .execute()
  )
}

async function destinationsOf(
  trx: Connection,
  sealer: Sealer,
  workspaceId: string,
): Promise<Map<string, OverviewDestination[]>> {
  const rows = await trx
    .selectFrom('destinations')
    .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
    .select([
      'destinations.pipe_id',
      'destination_id',
      'destination_type',
      'destination_name',
      'destination_status',
      'destination_config',
    ])
    .where('pipes.workspace_id', '=', workspaceId)
    .orderBy('destinations.creation_order')
    .execute()
  const byPipe = new Map<string, OverviewDestination[]>()
  for (const { pipe_id, destination_config, ...row } of rows) {
    const config = urlConfig(sealer, { ...row, destination_config })
    const facts = wordsOf(row.destination_type)
    const destination = {
      ...row,
      destination_target: facts.target(config),
      destination_server: facts.shownServer(config),
    }
    const others = byPipe.get(pipe_id)
    if (others === undefined) byPipe.set(pipe_id, [destination])
    else others.push(destination)
  }
  return byPipe
}
