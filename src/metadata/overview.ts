/**
 * What an overview needs of metadata, in one snapshot: a few statements whatever the number of pipes, each by an index. Of
 * configs only URLs are opened, to be shown without their secrets.
 */
import { wordsOf } from '../contract/destination-words.ts'
import type { UsageToday } from '../contract/overview.ts'
import { type Connection, inSnapshot, isoTime, normaliseId } from './database.ts'
import { urlConfig } from './destination-config.ts'
import type { Sealer } from './secrets.ts'
import type { Metadata, OverviewDestination } from './store.ts'

export function overview(db: Connection, sealer: Sealer): Metadata['overview'] {
  return (workspaceId, sinceMs) =>
    inSnapshot(db, async (trx) => {
      const id = normaliseId(workspaceId)
      const usage = await usageSince(trx, id, sinceMs)
      const destinations = await destinationsOf(trx, sealer, id)
      const pipes = await pipesOf(trx, id)
      return pipes.map(({ last_ingest_ms, ...pipe }) => ({
        ...pipe,
        last_ingest_ts: last_ingest_ms === null ? null : isoTime(last_ingest_ms),
        usage_today: usage.get(pipe.pipe_id) ?? noUsageToday,
        destinations: destinations.get(pipe.pipe_id) ?? [],
      }))
    })
}

function pipesOf(trx: Connection, workspaceId: string) {
  return (
    trx
      .selectFrom('pipes')
      .select(['pipe_id', 'pipe_name', 'pipe_description', 'pipe_status'])
      // The newest of each pipe by its key: there may be hundreds of hours of it.
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
    const destination = { ...row, destination_target: wordsOf(row.destination_type).target(config) }
    const others = byPipe.get(pipe_id)
    if (others === undefined) byPipe.set(pipe_id, [destination])
    else others.push(destination)
  }
  return byPipe
}

const counted = [
  'ingest_requests',
  'ingest_records',
  'ingest_bytes',
  'rejected_requests',
  'delivered_records',
  'failed_attempts',
  'skipped_records',
] as const satisfies readonly (keyof UsageToday)[]

export const noUsageToday: UsageToday = {
  ingest_requests: 0,
  ingest_records: 0,
  ingest_bytes: 0,
  rejected_requests: 0,
  delivered_records: 0,
  failed_attempts: 0,
  skipped_records: 0,
}

async function usageSince(
  trx: Connection,
  workspaceId: string,
  sinceMs: number,
): Promise<Map<string, UsageToday>> {
  const rows = await trx
    .selectFrom('pipes')
    .innerJoin('usage_hours as hour', (join) =>
      join.onRef('hour.pipe_id', '=', 'pipes.pipe_id').on('hour.hour_ms', '>=', sinceMs),
    )
    .select('pipes.pipe_id')
    .select((eb) => counted.map((name) => eb.fn.sum(`hour.${name}`).as(name)))
    .where('pipes.workspace_id', '=', workspaceId)
    .groupBy('pipes.pipe_id')
    .execute()
  return new Map(
    rows.map(({ pipe_id, ...sums }) => {
      const usage = { ...noUsageToday }
      for (const name of counted) usage[name] = Number(sums[name])
      return [pipe_id, usage]
    }),
  )
}
