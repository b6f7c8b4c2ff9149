/** Migration 25: every field of a lane as it was, and a damaged row damaged. */
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import { Kysely, sql, type Transaction } from 'kysely'
import t from 'tap'
import { openPostgresDatabase } from '../../../src/cluster/postgresql/open.ts'
import { type Connection, inRowTransaction, type Tables } from '../../../src/metadata/database.ts'
import { type LaneState, newLaneState } from '../../../src/metadata/lane-state.ts'
import { migrate, migrations } from '../../../src/metadata/migrations.ts'
import { checkMetadata } from '../../../src/metadata/sqlite/check.ts'
import { sqliteDialect } from '../../../src/metadata/sqlite/dialect.ts'
import type { MetadataSpec } from '../../../src/metadata/store.ts'
import { onlySqlite } from './database.ts'
import { open, type TestFile, testFile } from './fixture.ts'

const ids = ['full', 'idle', 'damaged', 'unchecked'] as const

const full: LaneState = {
  ...{ destinationId: 'full', cursorSeq: 2 ** 53 - 1, cursorMark: '{"messages":1}', ownerEpoch: 12 },
  ...{ batchFirstSeq: 5, batchLastSeq: 6, bisectLastSeq: 7, nextFirstSeq: 8, nextLastSeq: 9 },
  ...{ generation: 1_763_765_000_001, recordOffset: 70, sizeLimitRecords: 71, sizeSuccesses: 72 },
  ...{ attempts: 8, firstFailedMs: 1_700_000_000_009, nextAttemptMs: 1_700_000_000_010, blockingMsgId: 'm' },
  lastError: {
    ...{ class: 'permanent', code: '22P02', message: 'invalid "ü"', fault: 'records' },
    ...{ recordIndex: 0, column: 'größe', value: '' },
  },
  ...{ lastDeliveredMs: 11, deliveredRecords: 12, filteredRecords: 13, skippedMessages: 14 },
  ...{ droppedMessages: 15, leaseMsgId: 'l', leaseUntilMs: 16 },
}

/** A database of format 24 with four lanes of one pipe. */
async function formatBefore(options: TestFile): Promise<void> {
  await options.ready()
  const db = await connection(options.spec)
  await inRowTransaction(db, async (trx) => {
    const before = migrations.filter(({ number }) => number <= 24)
    await migrate(trx, options.file, 1_700_000_000_000, before)
    await insert(trx, 'workspaces', { workspace_id: 'w', workspace_name: 'default', workspace_created_ms: 1 })
    await insert(trx, 'pipes', {
      ...{
        pipe_id: 'p',
        workspace_id: 'w',
        pipe_name: 'events',
        pipe_description: '',
        pipe_status: 'active',
      },
      ...{
        pipe_add_ingest_ts: 0,
        pipe_add_ingest_ip: 0,
        pipe_ingest_ts_field: 'ts',
        pipe_ingest_ip_field: 'ip',
      },
      ...{
        pipe_api_key_required: 1,
        pipe_allow_any_browser_origin: 0,
        pipe_created_ms: 1,
        pipe_updated_ms: 1,
      },
    })
    for (const id of ids)
      await insert(trx, 'destinations', {
        ...{ destination_id: id, pipe_id: 'p', destination_type: 'destination_pull', destination_name: id },
        ...{ destination_status: 'active', destination_max_retry_seconds: 60, destination_config: '{}' },
        ...{ destination_created_ms: 1, destination_updated_ms: 1 },
      })
    const nothing = {
      ...{ size_successes: 0, attempts: 0, delivered_records: 4, skipped_messages: 0, dropped_messages: 0 },
    }
    await insertLane(trx, {
      ...{ destination_id: 'full', cursor_seq: 2 ** 53 - 1, cursor_mark: '{"messages":1}', owner_epoch: 12 },
      ...{ batch_first_seq: 5, batch_last_seq: 6, bisect_last_seq: 7, next_first_seq: 8, next_last_seq: 9 },
      ...{ generation: 1_763_765_000_001, record_offset: 70, size_limit_records: 71, size_successes: 72 },
      ...{ attempts: 8, first_failed_ms: 1_700_000_000_009, next_attempt_ms: 1_700_000_000_010 },
      ...{
        blocking_msg_id: 'm',
        error_class: 'permanent',
        error_code: '22P02',
        error_message: 'invalid "ü"',
      },
      ...{ error_fault: 'records', error_record_index: 0, error_column: 'größe', error_value: '' },
      ...{ last_delivered_ms: 11, delivered_records: 12, filtered_records: 13, skipped_messages: 14 },
      ...{ dropped_messages: 15, lease_msg_id: 'l', lease_until_ms: 16 },
      row_check: crc32(`full\n${2 ** 53 - 1}\n{"messages":1}\n5\n6\n7\n70\nl\n12\n8\n9\n1763765000001`),
    })
    const check = (id: string, seq: number) => crc32(`${id}\n${seq}\n\n\n\n\n0\n\n0`)
    await insertLane(trx, { ...nothing, destination_id: 'idle', cursor_seq: 3, row_check: check('idle', 3) })
    const damaged = { ...nothing, destination_id: 'damaged', cursor_seq: 67 }
    await insertLane(trx, { ...damaged, row_check: check('damaged', 3) })
    await insertLane(trx, { ...nothing, destination_id: 'unchecked', cursor_seq: 9 })
  })
  await db.destroy()
}

async function connection(spec: MetadataSpec): Promise<Connection> {
  if (spec.kind === 'sqlite') return new Kysely<Tables>({ dialect: sqliteDialect(new Database(spec.file)) })
  const { db, leases, prepare } = await openPostgresDatabase(spec.url)
  await leases.destroy()
  await prepare(async () => {})
  return db
}

async function insertLane(trx: Transaction<Tables>, values: Record<string, unknown>): Promise<void> {
  await insert(trx, 'lanes', { record_offset: 0, generation: 0, owner_epoch: 0, ...values }, false)
}

async function insert(
  trx: Transaction<Tables>,
  table: string,
  values: Record<string, unknown>,
  isOrdered = true,
): Promise<void> {
  const row = isOrdered ? { ...values, creation_order: 1 } : values
  const columns = sql.join(Object.keys(row).map((name) => sql.ref(name)))
  await sql`INSERT INTO ${sql.table(table)} (${columns}) VALUES (${sql.join(Object.values(row))})`.execute(
    trx,
  )
}

t.test('every field is as it was, and a damaged row is damaged', async (t) => {
  const options = testFile(t)
  await formatBefore(options)
  const { laneStore, ...metadata } = await open(t, options)
  t.strictSame(await laneStore.load('full'), full)
  const idle = { ...newLaneState('idle', 3), deliveredRecords: 4 }
  t.strictSame(await laneStore.load('idle'), idle)
  const counters = { deliveredRecords: 4 }
  await t.rejects(laneStore.load('damaged'), { name: 'LaneStateDamagedError', counters })
  t.match(await laneStore.load('unchecked'), { cursorSeq: 9, deliveredRecords: 4 })
  t.equal(await metadata.knownSeq(), 2 ** 53 - 1)
  await t.rejects(laneStore.save([{ ...full, ownerEpoch: 11 }], []), { name: 'LaneOwnershipLostError' })
  await laneStore.save([{ ...full, cursorSeq: 10 }, idle], [])
  t.match(await laneStore.load('full'), { cursorSeq: 10, ownerEpoch: 12 })
  await metadata.destinations.delete('w', 'p', 'idle')
  t.equal(await laneStore.load('idle'), null, 'the row goes with its destination')
})

t.test('offline commands read a file of the format before', { skip: onlySqlite('a file') }, async (t) => {
  const options = testFile(t)
  await formatBefore(options)
  const before = checkMetadata(options.file)
  t.strictSame(before.problems, [])
  t.match(
    before.lanes.map(({ destinationId, isIntact, cursorSeq }) => [destinationId, isIntact, cursorSeq]),
    [
      ['full', true, 2 ** 53 - 1],
      ['idle', true, 3],
      ['damaged', false, 0],
      ['unchecked', true, 9],
    ],
  )
  await (await open(t, options)).close()
  t.strictSame(checkMetadata(options.file).lanes, before.lanes)
})
