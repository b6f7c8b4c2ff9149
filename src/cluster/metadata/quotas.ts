/**
 * Limits of pipes for all nodes of a cluster. Every statement is a transaction of its own and decides by the row's
 * state after it has the row's lock, so the nodes' reservations together never exceed a limit.
 *
 *   a crash between                       what is then stored
 *   reserve and its response              the block counts as used: the day loses at most one block per node
 *   returnBlock and its response          the block is returned, or counts as used; it is never returned twice
 *   limits removed and the sums deleted   nothing: both are one transaction (limits.ts)
 *
 * A stale node can use only what it has reserved. Its returns name the ledger, which is different after the sums
 * restarted.
 */
import { randomUUID } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import type { ClusterStore, QuotaAsk } from '../../metadata/cluster-store.ts'
import { normaliseId } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'
import { dayMs } from '../../platform/quantities.ts'
import type { DatabaseClock } from './statements.ts'

/** A node holds at most this fraction of the remaining quota, which is lost when it is killed. */
const leftPerNode = 32
/** Keeps rows of the day before and of a clock that jumped. */
const daysKept = 3
/** A node repeats its demand every second. */
const demandValidMs = 3_000
const demandKeptMs = 60_000

interface ReservedRow {
  ledger_id: string
  granted_records: number
  granted_bytes: number
  records: number
  bytes: number
  day_left_ms: number
}

export function quotas(db: Connection, clock: DatabaseClock): ClusterStore['quotas'] {
  const today = () => sql`today AS (
    SELECT ms - ms % ${sql.lit(dayMs)} AS start_ms, ${sql.lit(dayMs)} - ms % ${sql.lit(dayMs)} AS left_ms
    FROM (SELECT ${clock()} AS ms) AS clock)`
  return {
    async reserve(pipeId, ask) {
      const granted = {
        records: grant('records', 'pl_ingest_max_records_per_day', ask),
        bytes: grant('bytes', 'pl_ingest_max_bytes_per_day', ask),
      }
      const { rows } = await sql<ReservedRow>`WITH ${today()}
        UPDATE quota_days AS day SET
          records = day.records + ${granted.records}, granted_records = ${granted.records},
          bytes = day.bytes + ${granted.bytes}, granted_bytes = ${granted.bytes}
        FROM pipe_limits AS most, today
        WHERE day.pipe_id = ${normaliseId(pipeId)} AND most.pipe_id = day.pipe_id AND day.day_start_ms = today.start_ms
        RETURNING day.ledger_id, day.granted_records, day.granted_bytes, day.records, day.bytes,
          today.left_ms AS day_left_ms`.execute(db)
      const row = rows[0]
      if (row === undefined) return null
      return {
        ledgerId: row.ledger_id,
        records: row.granted_records,
        bytes: row.granted_bytes,
        reserved: { records: row.records, bytes: row.bytes },
        dayLeftMs: row.day_left_ms,
      }
    },

    async openDay(givenId) {
      const pipeId = normaliseId(givenId)
      // A pipe that already had limits yesterday starts at zero: usage includes records from before midnight that were
      // counted late.
      const begun = (column: 'ingest_records' | 'ingest_bytes') => sql`CASE
        WHEN EXISTS (SELECT 1 FROM quota_days AS before
          WHERE before.pipe_id = most.pipe_id AND before.day_start_ms < today.start_ms) THEN 0
        ELSE COALESCE((SELECT CAST(sum(${sql.ref(column)}) AS bigint) FROM usage_hours AS hour
          WHERE hour.pipe_id = most.pipe_id AND hour.hour_ms >= today.start_ms
            AND hour.hour_ms < today.start_ms + ${sql.lit(dayMs)}), 0) END`
      await sql`WITH ${today()}
        INSERT INTO quota_days (pipe_id, day_start_ms, ledger_id, records, bytes, granted_records, granted_bytes)
        SELECT most.pipe_id, today.start_ms, ${randomUUID()}, ${begun('ingest_records')}, ${begun('ingest_bytes')}, 0, 0
        FROM pipe_limits AS most, today WHERE most.pipe_id = ${pipeId}
        ON CONFLICT (pipe_id, day_start_ms) DO NOTHING`.execute(db)
      await sql`WITH ${today()}
        DELETE FROM quota_days USING today WHERE pipe_id = ${pipeId}
          AND day_start_ms < today.start_ms - ${sql.lit(daysKept * dayMs)}`.execute(db)
    },

    async returnBlock({ pipeId, ledgerId }, { records, bytes }) {
      await sql`UPDATE quota_days SET records = records - ${bigint(records)}, bytes = bytes - ${bigint(bytes)}
        WHERE pipe_id = ${normaliseId(pipeId)} AND ledger_id = ${ledgerId}`.execute(db)
    },

    async demand(nodeId, records) {
      const pipeIds = [...records.keys()]
      if (pipeIds.length > 0)
        await sql`INSERT INTO quota_rates (pipe_id, node_id, records_per_second, expires_ms)
          SELECT pipe_id, ${nodeId}, records, ${clock()} + ${sql.lit(demandValidMs)}
          FROM unnest(CAST(${pipeIds} AS text[]), CAST(${[...records.values()]} AS bigint[])) AS given (pipe_id, records)
          ON CONFLICT (pipe_id, node_id) DO UPDATE SET
            records_per_second = excluded.records_per_second, expires_ms = excluded.expires_ms`.execute(db)
      const { rows } = await sql<{ pipe_id: string | null; records: number; nodes: number }>`
        SELECT NULL AS pipe_id, 0 AS records, count(*) AS nodes FROM cluster_nodes WHERE expires_ms > ${clock()}
        UNION ALL
        SELECT pipe_id, CAST(sum(records_per_second) AS bigint), count(*) FROM quota_rates
        WHERE pipe_id = ANY (CAST(${pipeIds} AS text[])) AND node_id <> ${nodeId} AND expires_ms > ${clock()}
        GROUP BY pipe_id`.execute(db)
      const others = new Map<string, { records: number; nodes: number }>()
      let nodes = 1
      for (const row of rows) {
        if (row.pipe_id === null) nodes = Math.max(1, row.nodes)
        else others.set(row.pipe_id, { records: row.records, nodes: row.nodes })
      }
      return { nodes, others }
    },

    async pruneDemand() {
      await sql`DELETE FROM quota_rates WHERE expires_ms < ${clock()} - ${sql.lit(demandKeptMs)}`.execute(db)
    },
  }
}

/** Grants the need as far as the quota allows, and of the spare at most what the node can hold of the remainder. */
function grant(sums: 'records' | 'bytes', limit: string, ask: QuotaAsk): RawBuilder<number> {
  const [need, spare, held] = [bigint(ask.need[sums]), bigint(ask.spare[sums]), bigint(ask.held[sums])]
  const most = sql.ref(`most.${limit}`)
  const left = sql`(${most} - ${sql.ref(`day.${sums}`)})`
  return sql`CASE WHEN ${most} IS NULL THEN ${need} + ${spare}
    WHEN ${left} <= ${need} THEN greatest(0, ${left})
    ELSE ${need} + least(${spare}, greatest(0, (${left} - ${need}) / ${sql.lit(leftPerNode)} - ${held})) END`
}

function bigint(value: number): RawBuilder<number> {
  return sql`CAST(${value} AS bigint)`
}
