/**
 * Idempotency keys of a cluster, by their hashes (migration 24). PostgreSQL only. Every statement is a transaction of its own.
 *
 * The primary key of `key_claims` lets only one of two requests with the same key claim it. The other tables need no
 * such rule, because only a claim becomes a used key, in one statement. A claim can be made just after an earlier one
 * became a used key, so `claim` reads the used keys after its claims are committed; from then on no other node can add
 * this key.
 *
 *   a crash or a lost connection after    what is then stored
 *   the claims were inserted              pending claims without a frame: any node settles them (cluster/jetstream/settlement.ts)
 *   settle                                used keys, or still the claims: never both, never neither
 *   release                               nothing, or still the claims
 */
import { CompiledQuery, type RawBuilder, sql } from 'kysely'
import {
  type Attempt,
  type FoundKeys,
  type KeyStore,
  keyLifetimeMs,
  type PendingClaim,
  type SettledClaim,
  type UsedKey,
} from '../../log/key-store.ts'
import type { Connection } from '../../metadata/transactions.ts'
import { WriteConflictError } from '../../metadata/write-errors.ts'
import type { DatabaseClock } from './statements.ts'

/**
 * The number of tables in migration 24. More tables with shorter periods would keep fewer expired keys, but each lookup
 * reads all of them.
 */
const ringTables = 6
const tableMs = 8 * 3_600_000
/** The table that is written, and those with keys of the 24 h before. */
const liveTables = keyLifetimeMs / tableMs + 1
const attempts = 5

const tableNames = Array.from({ length: ringTables }, (_, table) => `used_keys_${table}`)

/** The columns of a claim under the names of its members. */
const claimColumns = sql`key_hash AS "keyHash", body_hash AS "bodyHash", msg_id AS "msgId", record_count AS "recordCount",
  pipe_id AS "pipeId", chain, after_seq AS "afterSeq", attempt_id AS "attemptId", claimed_ms AS "claimedMs"`

export function keys(db: Connection, clock: DatabaseClock): KeyStore {
  const statement = findStatement(clock).compile(db).sql
  const find = (keyHashes: readonly string[]) => findKeys(db, statement, keyHashes)
  const release: KeyStore['release'] = async (claims) => {
    await again(() =>
      sql`DELETE FROM key_claims AS claim USING (${given(claims)}) AS given (key_hash, attempt_id)
        WHERE claim.key_hash = given.key_hash AND claim.attempt_id = given.attempt_id`.execute(db),
    )
  }
  return {
    find,
    release,

    async claim(claims) {
      const column = (name: keyof (typeof claims)[number]) => claims.map((claim) => claim[name])
      // Always in the same order: otherwise two statements that wait for each other's keys would deadlock.
      await again(() =>
        sql`INSERT INTO key_claims (key_hash, body_hash, pipe_id, chain, after_seq, attempt_id, msg_id, record_count, claimed_ms)
          SELECT given.*, ${clock()} FROM unnest(${texts(column('keyHash'))}, ${texts(column('bodyHash'))},
            ${texts(column('pipeId'))}, ${texts(column('chain'))}, ${bigints(column('afterSeq'))},
            ${texts(column('attemptId'))}, ${texts(column('msgId'))}, ${bigints(column('recordCount'))}) AS given (key_hash)
          ORDER BY key_hash ON CONFLICT (key_hash) DO NOTHING`.execute(db),
      )
      const found = await find(claims.map(({ keyHash }) => keyHash))
      const used = new Set(found.used.map(({ keyHash }) => keyHash))
      if (used.size === 0) return found
      // Claimed, although the key had been used a moment before.
      const own = new Set(claims.map(({ attemptId }) => attemptId))
      const vain = found.pending.filter((claim) => used.has(claim.keyHash) && own.has(claim.attemptId))
      if (vain.length > 0) await release(vain)
      return { used: found.used, pending: found.pending.filter(({ keyHash }) => !used.has(keyHash)) }
    },

    async settle(claims) {
      for (const [table, settled] of byTable(claims))
        await again(() =>
          sql`WITH settled AS (
              DELETE FROM key_claims AS claim USING (${given(settled)}) AS given (key_hash, attempt_id, seq)
              WHERE claim.key_hash = given.key_hash AND claim.attempt_id = given.attempt_id
              RETURNING claim.key_hash, claim.body_hash, claim.msg_id, claim.record_count, given.seq, claim.claimed_ms)
            INSERT INTO ${sql.table(table)} (key_hash, body_hash, msg_id, record_count, seq, used_ms)
            SELECT * FROM settled ${replacing}`.execute(db),
        )
    },

    async pendingFor(ms, limit) {
      const { rows } = await sql<PendingClaim>`SELECT ${claimColumns} FROM key_claims
        WHERE claimed_ms < ${clock()} - ${sql.lit(ms)} ORDER BY claimed_ms LIMIT ${sql.lit(limit)}`.execute(
        db,
      )
      return rows
    },

    async attempts() {
      const { rows } = await sql<Attempt>`SELECT DISTINCT pipe_id AS "pipeId", chain, after_seq AS "afterSeq",
        attempt_id AS "attemptId" FROM key_claims`.execute(db)
      return rows
    },

    async add(used) {
      if (used.length === 0) return
      const { rows } = await sql<{ now_ms: number }>`SELECT ${clock()} AS now_ms`.execute(db)
      const nowMs = rows[0]?.now_ms ?? 0
      const of = (name: keyof UsedKey) => used.map((key) => key[name])
      await again(() =>
        sql`INSERT INTO ${sql.table(tableOf(nowMs))} (key_hash, body_hash, msg_id, record_count, seq, used_ms)
          SELECT given.*, ${clock()} FROM unnest(${texts(of('keyHash'))}, ${texts(of('bodyHash'))},
            ${texts(of('msgId'))}, ${bigints(of('recordCount'))}, ${bigints(of('seq'))}) AS given ${replacing}`.execute(
          db,
        ),
      )
    },

    async prune() {
      const { rows } = await sql<{ now_ms: number }>`SELECT ${clock()} AS now_ms`.execute(db)
      const turn = Math.floor((rows[0]?.now_ms ?? 0) / tableMs)
      // Not the next one: another statement can start to write it while this one runs.
      for (let age = liveTables; age < ringTables - 1; age += 1) {
        const table = sql.table(tableNames[(turn - age + ringTables) % ringTables] ?? '')
        const { rows: some } = await sql`SELECT 1 FROM ${table} LIMIT 1`.execute(db)
        if (some.length > 0) await sql`TRUNCATE ${table}`.execute(db)
      }
    },
  }
}

/**
 * One statement, so one snapshot: a claim that becomes a used key meanwhile is seen as one of the two. $1 has the
 * hashes.
 */
function findStatement(clock: DatabaseClock): RawBuilder<unknown> {
  const wanted = sql`key_hash = ANY (CAST($1 AS text[]))`
  const used = tableNames.map(
    (table) => sql`SELECT key_hash, body_hash, msg_id, record_count, NULL, NULL, CAST(NULL AS bigint), NULL,
      CAST(NULL AS bigint), seq FROM ${sql.table(table)}
      WHERE ${wanted} AND used_ms > ${clock()} - ${sql.lit(keyLifetimeMs)}`,
  )
  return sql`SELECT ${claimColumns}, CAST(NULL AS bigint) AS seq FROM key_claims WHERE ${wanted}
    UNION ALL ${sql.join(used, sql` UNION ALL `)}`
}

/** A key can still be in a table of an earlier period that was not emptied. */
const replacing = sql`ON CONFLICT (key_hash) DO UPDATE SET body_hash = excluded.body_hash, msg_id = excluded.msg_id,
  record_count = excluded.record_count, seq = excluded.seq, used_ms = excluded.used_ms`

function tableOf(ms: number): string {
  return tableNames[Math.floor(ms / tableMs) % ringTables] ?? ''
}

async function findKeys(db: Connection, statement: string, keyHashes: readonly string[]): Promise<FoundKeys> {
  const { rows } = await db.executeQuery<PendingClaim & { seq: number | null }>(
    CompiledQuery.raw(statement, [keyHashes]),
  )
  const found: FoundKeys = { used: [], pending: [] }
  for (const { seq, ...claim } of rows) {
    const { keyHash, bodyHash, msgId, recordCount } = claim
    if (seq === null) found.pending.push(claim)
    else found.used.push({ keyHash, bodyHash, msgId, recordCount, seq })
  }
  return found
}

function byTable(claims: readonly SettledClaim[]): Map<string, SettledClaim[]> {
  const tables = new Map<string, SettledClaim[]>()
  for (const claim of claims) {
    const table = tableOf(claim.claimedMs)
    tables.set(table, [...(tables.get(table) ?? []), claim])
  }
  return tables
}

/** Claims as rows, with their `seq` if they have one. */
function given(claims: readonly { keyHash: string; attemptId: string; seq?: number }[]): RawBuilder<unknown> {
  const seqs = claims.flatMap(({ seq }) => (seq === undefined ? [] : [seq]))
  return sql`SELECT * FROM unnest(${texts(claims.map(({ keyHash }) => keyHash))},
    ${texts(claims.map(({ attemptId }) => attemptId))}${seqs.length === 0 ? sql`` : sql`, ${bigints(seqs)}`})`
}

function texts(values: readonly (string | number)[]): RawBuilder<unknown> {
  return sql`CAST(${values} AS text[])`
}

function bigints(values: readonly (string | number)[]): RawBuilder<unknown> {
  return sql`CAST(${values} AS bigint[])`
}

/** Repeats a statement after a deadlock, which is possible between statements that settle the same claims. */
async function again(statement: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await statement()
      return
    } catch (error) {
      if (!(error instanceof WriteConflictError) || attempt === attempts) throw error
    }
  }
}
