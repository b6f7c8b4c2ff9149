/** A metadata database as one side of a move: its raw rows, and the progress of the move (`move-state.ts`). */
import { sql, type Transaction } from 'kysely'
import { keys } from '../../cluster/metadata/keys.ts'
import { type DatabaseClock, databaseClock } from '../../cluster/metadata/statements.ts'
import type { Epoch } from '../../contract/epochs.ts'
import type { KeyStore } from '../../log/key-store.ts'
import { type DataDirIdentity, identityRows, loadIdentity, loadKnownSeq } from '../../metadata/identity.ts'
import type { LaneState } from '../../metadata/lane-state.ts'
import { isLaneRowIntact, shownLane } from '../../metadata/lane-store.ts'
import {
  deleteSetting,
  loadMovedFrom,
  loadMovedTo,
  loadMoving,
  type MovedTo,
  type Moving,
  moveSettings,
  putSetting,
} from '../../metadata/move-state.ts'
import type { MetadataSpec } from '../../metadata/store.ts'
import type { LaneHistoryRow, LaneRow, ParkedRow, Tables, UsageMarkRow } from '../../metadata/tables.ts'
import { type Connection, inWriteTransaction, type OpenedDatabase } from '../../metadata/transactions.ts'
import { openPrepared } from '../../stores/open-metadata.ts'
import { type CopiedTable, copiedTables } from './metadata-tables.ts'

export interface MovedPipe {
  pipeId: string
  workspaceId: string
}

/** A lane with every seq in its history and its parked records. */
export interface MovedLane {
  state: LaneState
  /** False: the checksum is wrong, and `state` has only the counters. */
  isIntact: boolean
  history: { firstSeq: number; lastSeq: number }[]
  parkedSeqs: number[]
}

/** Translates the rows that contain a seq. Null: the row is left out. */
export interface RowRules {
  lane(row: LaneRow, pipeId: string): LaneRow
  history(row: LaneHistoryRow, pipeId: string): LaneHistoryRow | null
  parked(row: ParkedRow, pipeId: string): ParkedRow
  /** The marks of every pipe. */
  usageMarks: readonly UsageMarkRow[]
}

/** Adds `by` to the seqs of the kept messages: `base` < seq <= `lastSeq`. */
export interface SeqShift {
  base: number
  lastSeq: number
  by: number
}

const pageRows = 500

/** Opens the database and updates its tables. Throws the errors of `openMetadata`. */
export async function openMoveStore(spec: MetadataSpec, sealingKey: Uint8Array): Promise<MoveStore> {
  return new MoveStore(await openPrepared(spec, sealingKey), databaseClock(spec.kind, Date.now))
}

export class MoveStore {
  /** Identifies the database in messages. */
  readonly label: string
  readonly #opened: OpenedDatabase
  readonly #db: Connection
  readonly #clock: DatabaseClock

  constructor(opened: OpenedDatabase, clock: DatabaseClock) {
    this.#opened = opened
    this.#clock = clock
    this.#db = opened.db
    this.label = opened.label
  }

  /** Idempotency keys of a cluster. */
  get keys(): KeyStore {
    return keys(this.#db, this.#clock)
  }

  async identity(): Promise<DataDirIdentity> {
    const identity = await loadIdentity(this.#db)
    if (identity === null) throw new Error('opening makes an identity')
    return identity
  }

  knownSeq(): Promise<number> {
    return loadKnownSeq(this.#db)
  }

  /** Names of the running nodes. */
  async liveNodes(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('cluster_nodes')
      .select('node_name')
      .where('expires_ms', '>', this.#clock())
      .orderBy('node_name')
      .execute()
    return rows.map((row) => row.node_name)
  }

  moving(): Promise<Moving | null> {
    return loadMoving(this.#db)
  }

  movedTo(): Promise<MovedTo | null> {
    return loadMovedTo(this.#db)
  }

  /** Durable when it resolves. */
  async beginMove(moving: Moving): Promise<void> {
    await inWriteTransaction(this.#db, (trx) => putSetting(trx, moveSettings.moving, moving))
  }

  async markMoved(movedTo: MovedTo): Promise<void> {
    await inWriteTransaction(this.#db, (trx) => putSetting(trx, moveSettings.movedTo, movedTo))
  }

  async pipes(): Promise<MovedPipe[]> {
    const rows = await this.#db
      .selectFrom('pipes')
      .select(['pipe_id', 'workspace_id'])
      .orderBy('pipe_id')
      .execute()
    return rows.map((row) => ({ pipeId: row.pipe_id, workspaceId: row.workspace_id }))
  }

  /** The number of pipes with a retention of their own, which the copy in a cluster does not have. */
  async pipesWithRetention(): Promise<number> {
    const rows = await this.#db
      .selectFrom('pipes')
      .select('pipe_id')
      .where('pipe_retention_hours', 'is not', null)
      .execute()
    return rows.length
  }

  async lanes(pipeId: string): Promise<MovedLane[]> {
    const rows = await this.#db
      .selectFrom('lanes')
      .innerJoin('destinations', 'destinations.destination_id', 'lanes.destination_id')
      .selectAll('lanes')
      .where('destinations.pipe_id', '=', pipeId)
      .execute()
    return await Promise.all(rows.map((row) => this.#lane(row)))
  }

  /**
   * Copies every row in one transaction: afterwards the target is either complete or unchanged. `state` is the result
   * of `stateOf` for this store.
   */
  async copyTo(target: MoveStore, moving: Moving, rules: RowRules, state: string): Promise<void> {
    const pipes = await this.#pipesOfDestinations()
    await inWriteTransaction(target.#db, async (trx) => {
      for (const table of copiedTables) await copyTable(this.#db, trx, table, rowRule(table, rules, pipes))
      for (const mark of rules.usageMarks) await insertRows(trx, 'usage_marks', [mark])
      await setIdentity(trx, moving.dataDirId, moving.epochs)
      await deleteSetting(trx, moveSettings.moving)
      await putSetting(trx, moveSettings.movedFrom, state)
    })
  }

  /**
   * Renumbers the lanes and everything else that contains a seq up to `lastSeq`, and starts an epoch, in one
   * transaction.
   */
  async renumber(
    shift: SeqShift,
    epochs: readonly Epoch[],
    lane: (moved: MovedLane) => LaneRow,
  ): Promise<void> {
    const { dataDirId } = await this.identity()
    const { base, lastSeq, by } = shift
    await inWriteTransaction(this.#db, async (trx) => {
      for (const row of await trx.selectFrom('lanes').selectAll().execute()) {
        const { destination_id: id, ...values } = lane(await this.#lane(row))
        await trx.updateTable('lanes').set(values).where('destination_id', '=', id).execute()
      }
      // The numbers that the stream has lost will be assigned to other messages, so their history is deleted.
      await trx.deleteFrom('lane_history').where('last_seq', '>', lastSeq).execute()
      await sql`UPDATE lane_history SET first_seq = first_seq + ${by}, last_seq = last_seq + ${by}, batch_last_seq = batch_last_seq + ${by}
        WHERE first_seq > ${base}`.execute(trx)
      await sql`UPDATE parked SET stream_seq = stream_seq + ${by} WHERE stream_seq > ${base} AND stream_seq <= ${lastSeq}`.execute(
        trx,
      )
      // Their ranges have the old numbers.
      await trx.deleteFrom('replays').execute()
      await setIdentity(trx, dataDirId, epochs)
    })
  }

  /**
   * A fingerprint that changes with every accepted message and every change by a user. `newestSeq` is that of the
   * buffer.
   */
  async stateOf(newestSeq: number): Promise<string> {
    return `${newestSeq}/${await this.count('audit_log')}`
  }

  movedFrom(): Promise<string | null> {
    return loadMovedFrom(this.#db)
  }

  async close(): Promise<void> {
    const { db, leases } = this.#opened
    if (leases !== db) await leases.destroy()
    await db.destroy()
  }

  /** Destinations with `exactly_once` whose batch is in progress: `pipe/name`. */
  async exactlyOnceUnderWay(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('lanes')
      .innerJoin('destinations', 'destinations.destination_id', 'lanes.destination_id')
      .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
      .selectAll('lanes')
      .select(['pipe_name', 'destination_name', 'destination_config'])
      .orderBy('pipe_name')
      .orderBy('destination_name')
      .execute()
    return rows
      .filter((row) => shownLane(row).batchFirstSeq !== null)
      .filter(
        (row) => (JSON.parse(row.destination_config) as { exactly_once?: unknown }).exactly_once === true,
      )
      .map((row) => `${row.pipe_name}/${row.destination_name}`)
  }

  /** The position up to which the usage of each pipe is counted. */
  async usageMarks(): Promise<UsageMarkRow[]> {
    return await this.#db.selectFrom('usage_marks').selectAll().execute()
  }

  async #lane(row: LaneRow): Promise<MovedLane> {
    const history = await this.#db
      .selectFrom('lane_history')
      .select(['first_seq', 'last_seq'])
      .where('destination_id', '=', row.destination_id)
      .orderBy('first_seq')
      .execute()
    const parked = await this.#db
      .selectFrom('parked')
      .select('stream_seq')
      .where('destination_id', '=', row.destination_id)
      .execute()
    return {
      state: shownLane(row),
      isIntact: isLaneRowIntact(row),
      history: history.map((run) => ({ firstSeq: run.first_seq, lastSeq: run.last_seq })),
      parkedSeqs: parked.map((one) => one.stream_seq),
    }
  }

  async #pipesOfDestinations(): Promise<Map<string, string>> {
    const rows = await this.#db.selectFrom('destinations').select(['destination_id', 'pipe_id']).execute()
    return new Map(rows.map((row) => [row.destination_id, row.pipe_id]))
  }

  async count(table: 'workspaces' | 'lanes' | 'parked' | 'audit_log'): Promise<number> {
    const row = await this.#db
      .selectFrom(table)
      .select((eb) => eb.fn.countAll<number>().as('rows'))
      .executeTakeFirstOrThrow()
    return row.rows
  }
}

type Row = Record<string, unknown>

function rowRule(
  { name }: CopiedTable,
  rules: RowRules,
  pipes: ReadonlyMap<string, string>,
): (row: Row) => object | null {
  const pipeOf = (row: { destination_id: string }) => pipes.get(row.destination_id) ?? ''
  // Rows match the types of Kysely's tables. Only this function handles them without knowing the table.
  switch (name) {
    case 'lanes':
      return (row) => rules.lane(row as unknown as LaneRow, pipeOf(row as unknown as LaneRow))
    case 'lane_history':
      return (row) =>
        rules.history(row as unknown as LaneHistoryRow, pipeOf(row as unknown as LaneHistoryRow))
    case 'parked':
      return (row) => rules.parked(row as unknown as ParkedRow, pipeOf(row as unknown as ParkedRow))
    case 'pipes':
      // The stream of a cluster has one retention for all pipes.
      return (row) => ({ ...row, pipe_retention_hours: null })
    default:
      return (row) => row
  }
}

async function copyTable(
  from: Connection,
  into: Transaction<Tables>,
  { name, key, page = pageRows }: CopiedTable,
  rule: (row: Row) => object | null,
): Promise<void> {
  let last: Row | undefined
  for (;;) {
    const rows = await readPage(from, { name, key, page }, last)
    await insertRows(
      into,
      name,
      rows.map(rule).filter((row) => row !== null),
    )
    if (rows.length < page) return
    last = rows.at(-1)
  }
}

async function readPage(
  from: Connection,
  { name, key, page }: Required<CopiedTable>,
  after: Row | undefined,
): Promise<Row[]> {
  const order = sql.join(key.map((column) => sql.ref(column)))
  const where =
    after === undefined ? sql`` : sql`WHERE (${order}) > (${sql.join(key.map((column) => after[column]))})`
  const { rows } = await sql<Row>`
    SELECT * FROM ${sql.table(name)} ${where} ORDER BY ${order} LIMIT ${sql.lit(page)}`.execute(from)
  return rows
}

async function insertRows(trx: Transaction<Tables>, name: string, rows: object[]): Promise<void> {
  const [first] = rows
  if (first === undefined) return
  const columns = Object.keys(first)
  const values = rows.map((row) => sql`(${sql.join(columns.map((column) => (row as Row)[column]))})`)
  await sql`
    INSERT INTO ${sql.table(name)} (${sql.join(columns.map((column) => sql.ref(column)))})
    VALUES ${sql.join(values)}`.execute(trx)
}

async function setIdentity(
  trx: Transaction<Tables>,
  dataDirId: string,
  epochs: readonly Epoch[],
): Promise<void> {
  for (const { name, value } of identityRows({ dataDirId, epochs: [...epochs] }))
    await putSetting(trx, name, value)
}
