/** Which lanes there are, with everything a driver needs: what delivery loads at start and after each change. */
import type { DestinationType } from '../contract/destination.ts'
import type { PipeLimits } from '../contract/limits.ts'
import {
  defaultFlushLimits,
  type FlushLimits,
  type LaneSource,
  type LaneSpec,
  type PipeLanes,
} from '../delivery/delivery.ts'
import { allColumns, columnsOf } from './columns.ts'
import { openConfig } from './destination-config.ts'
import { loadLimits } from './limits.ts'
import { type Connection, idKey, snapshot } from './schema.ts'
import type { Sealer } from './secrets.ts'

export function laneSource(db: Connection, sealer: Sealer): LaneSource {
  return {
    allPipes: () => snapshot(db, (trx) => loadLanes(trx, sealer, null)),

    async pipe(pipeId) {
      const [pipe] = await snapshot(db, (trx) => loadLanes(trx, sealer, idKey(pipeId)))
      return pipe ?? null
    },
  }
}

/** A fixed number of queries however many pipes there are. `pipeId` null: all. */
async function loadLanes(trx: Connection, sealer: Sealer, pipeId: string | null): Promise<PipeLanes[]> {
  let pipeQuery = trx
    .selectFrom('pipes')
    .select(['pipe_id', 'workspace_id', 'pipe_name', 'pipe_ingest_ts_field'])
    .orderBy('workspace_id')
    .orderBy('creation_order')
  let destinationQuery = trx
    .selectFrom('destinations')
    .selectAll()
    .orderBy('creation_order')
    .orderBy('destination_id')
  if (pipeId !== null) {
    pipeQuery = pipeQuery.where('pipe_id', '=', pipeId)
    destinationQuery = destinationQuery.where('pipe_id', '=', pipeId)
  }
  const pipes = await pipeQuery.execute()
  const destinations = await destinationQuery.execute()
  const limits = await loadLimits(trx, pipeId)
  const columns =
    pipeId === null
      ? await allColumns(trx)
      : await columnsOf(
          trx,
          destinations.map((row) => row.destination_id),
        )
  const result = new Map<string, { pipe: (typeof pipes)[number]; lanes: LaneSpec[] }>()
  for (const pipe of pipes) result.set(pipe.pipe_id, { pipe, lanes: [] })
  for (const row of destinations) {
    const owner = result.get(row.pipe_id)
    if (owner === undefined) continue
    const spec: Omit<LaneSpec, 'revision'> = {
      destinationId: row.destination_id,
      pipeId: row.pipe_id,
      pipeName: owner.pipe.pipe_name,
      workspaceId: owner.pipe.workspace_id,
      type: row.destination_type,
      config: openConfig(sealer, row),
      columns: columns.get(row.destination_id) ?? [],
      timestampField: owner.pipe.pipe_ingest_ts_field,
      status: row.destination_status,
      maxRetrySeconds: Number(row.destination_max_retry_seconds),
      flush: flushLimits(limits.get(row.pipe_id), row.destination_type),
    }
    // The spec holds secrets, so its fingerprint is a keyed one: a revision may be logged.
    owner.lanes.push({ ...spec, revision: sealer.fingerprint(JSON.stringify(spec)).slice(0, 32) })
  }
  return pipes.map((pipe) => ({
    pipeId: pipe.pipe_id,
    workspaceId: pipe.workspace_id,
    lanes: result.get(pipe.pipe_id)?.lanes ?? [],
  }))
}

/** Contract "Delivery": the pipe's limits row, else what suits the type. */
function flushLimits(limits: PipeLimits | undefined, type: DestinationType): FlushLimits {
  if (limits === undefined) return defaultFlushLimits[type]
  return {
    maxRecords: limits.pl_delivery_max_records_per_flush,
    maxBytes: limits.pl_delivery_max_bytes_per_flush,
    maxSeconds: limits.pl_delivery_max_seconds_per_flush,
  }
}
