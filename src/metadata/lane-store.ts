/**
 * Stores lane state, its counts and its history: the most frequent writer of the metadata file. A save is one
 * transaction, so after a crash the cursor and the hourly roll-ups agree.
 *
 * Rows are updated, never inserted: a row is created and deleted with its destination. A lane that saves just after its
 * destination was deleted changes nothing, and does not fail the other lanes of the save.
 */
import { crc32 } from 'node:zlib'
import { CompiledQuery, sql } from 'kysely'
import { noUsageCounts } from '../contract/usage.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import { hourMs } from '../platform/quantities.ts'
import { requireDeleted } from './lane-fence.ts'
import {
  attemptRecorder,
  forgetHistory,
  historyRecorder,
  laneHourIncrement,
  latencyRecorder,
  pruneHistory,
  usageIncrement,
} from './lane-history.ts'
import {
  type LaneCounters,
  type LaneCounts,
  LaneOwnershipLostError,
  type LaneState,
  LaneStateDamagedError,
  type LaneStore,
  LaneStoreUnavailableError,
  newLaneState,
  storedFields,
} from './lane-state.ts'
import { applyParkedChanges } from './parked-store.ts'
import { type LaneRow, normaliseId, type UsageHourRow } from './tables.ts'
import { type Connection, inRowTransaction, inWriteTransaction, UnknownWrite } from './transactions.ts'

export function laneStore(db: Connection, now: () => number): LaneStore {
  // Compiled once. CPU of a save of 100 rows on two cores, Node 20: 2.0 ms if Kysely builds each statement, 0.55 ms
  // with this text, 0.25 ms with better-sqlite3 directly. The one fsync of a save takes 0.2 to 2 ms, so a second way to
  // write the file is not worth its code.
  const updateLane = sql`
    UPDATE lanes SET state = ${null}, owner_epoch = ${null}, row_check = ${null}
    WHERE destination_id = ${null} AND owner_epoch <= ${null}`.compile(db).sql
  const addToHour = usageIncrement(db)
  const addToLaneHour = laneHourIncrement(db)
  const recordPassed = historyRecorder(db)
  const recordAttempts = attemptRecorder(db)
  const recordLatency = latencyRecorder(db)
  const unknown = new UnknownWrite<ReadonlySet<LaneState>>()

  return {
    load: (destinationId) => loadLane(db, destinationId),

    async take(destinationId, epoch) {
      // The lane had no earlier owner, so no other process can still save it.
      if (epoch <= 1) return await loadLane(db, destinationId)
      return await inWriteTransaction(db, async (trx) => {
        const state = await loadLane(trx, destinationId)
        if (state === null) return null
        if (state.ownerEpoch > epoch) throw new LaneOwnershipLostError([state.destinationId])
        const taken = { ...state, ownerEpoch: epoch }
        const { destination_id, ...values } = encodeLane(taken)
        // A concurrent save locks the row: this statement waits for it, and then the transaction runs again on the
        // saved state.
        await trx.updateTable('lanes').set(values).where('destination_id', '=', destination_id).execute()
        return taken
      })
    },

    async save(allRows, allCounts, parked = new Map()) {
      const stored = await unknown.stored().catch(asUnavailable)
      const rows = allRows.filter((row) => !stored?.has(row))
      const counts = rows.length === allRows.length ? allCounts : countsOf(rows, allCounts)
      if (rows.length === 0 && counts.length === 0) return
      // Changes of parked records depend on stored rows, so they need a serialisable transaction. All other statements
      // depend only on the row that they change.
      const inTransaction = parked.size > 0 ? inWriteTransaction : inRowTransaction
      const saving = inTransaction(db, async (trx) => {
        const saved = await updateRows(trx, rows, updateLane)
        const isSaved = ({ destinationId }: LaneState | LaneCounts) => saved.has(destinationId)
        for (const [destinationId, changes] of parked)
          if (saved.has(destinationId)) await applyParkedChanges(trx, destinationId, changes, now)
        const nowMs = now()
        const hourStartMs = nowMs - (nowMs % hourMs)
        await recordPassed(trx, counts.filter(isSaved))
        await recordAttempts(trx, counts.filter(isSaved))
        await recordLatency(trx, counts.filter(isSaved))
        for (const sum of sumsBy('destinationId', counts))
          await trx.executeQuery(addToLaneHour(sum, hourStartMs))
        for (const sum of sumsBy('pipeId', counts))
          await trx.executeQuery(addToHour(delivered(sum, hourStartMs)))
      })
      await saving.catch((error: unknown) => unknown.note(error, new Set(rows))).catch(asUnavailable)
    },

    async repair(row) {
      await inWriteTransaction(db, async (trx) => {
        const { destination_id, ...values } = encodeLane(row)
        const found = await laneRow(trx, destination_id)
        if (found === undefined || isLaneRowIntact(found)) return
        await trx.updateTable('lanes').set(values).where('destination_id', '=', destination_id).execute()
        await forgetHistory(trx, destination_id)
      })
    },

    pruneHistory: (owner, throughSeq) => pruneHistory(db, owner, { throughSeq, now: now() }),
  }
}

async function loadLane(db: Connection, destinationId: string): Promise<LaneState | null> {
  const row = await laneRow(db, destinationId)
  return row === undefined ? null : decodeLane(row)
}

function laneRow(db: Connection, destinationId: string): Promise<LaneRow | undefined> {
  return db
    .selectFrom('lanes')
    .selectAll()
    .where('destination_id', '=', normaliseId(destinationId))
    .executeTakeFirst()
}

function asUnavailable(error: unknown): never {
  throw error instanceof StorageUnavailableError ? new LaneStoreUnavailableError(error) : error
}

function byDestination(a: LaneState, b: LaneState): number {
  return a.destinationId < b.destinationId ? -1 : 1
}

/** Returns the ids of the rows that exist. Rejects with LaneOwnershipLostError if a newer owner has saved one. */
async function updateRows(
  trx: Connection,
  rows: readonly LaneState[],
  statement: string,
): Promise<ReadonlySet<string>> {
  const saved = new Set<string>()
  const unsaved: string[] = []
  for (const row of rows.toSorted(byDestination)) {
    const { destination_id, owner_epoch, state, row_check } = encodeLane(row)
    const parameters = [state, owner_epoch, row_check, destination_id, owner_epoch]
    const { numAffectedRows } = await trx.executeQuery(CompiledQuery.raw(statement, parameters))
    if (numAffectedRows === 0n) unsaved.push(destination_id)
    else saved.add(destination_id)
  }
  if (unsaved.length > 0) await requireDeleted(trx, unsaved)
  return saved
}

function countsOf(rows: readonly LaneState[], counts: readonly LaneCounts[]): LaneCounts[] {
  const ids = new Set(rows.map(({ destinationId }) => destinationId))
  return counts.filter(({ destinationId }) => ids.has(destinationId))
}

/**
 * Adds up the counts by lane or by pipe. The result is sorted by key, because ingest of other nodes updates the same
 * rows of pipes.
 */
function sumsBy(id: 'destinationId' | 'pipeId', counts: readonly LaneCounts[]): LaneCounts[] {
  const sums = new Map<string, LaneCounts>()
  for (const count of counts) {
    const sum = sums.get(count[id])
    if (sum === undefined) {
      sums.set(count[id], { ...count })
      continue
    }
    sum.deliveredRecords += count.deliveredRecords
    sum.failedAttempts += count.failedAttempts
    sum.skippedRecords += count.skippedRecords
    sum.filteredRecords += count.filteredRecords
  }
  return [...sums.values()].sort((a, b) => (a[id] < b[id] ? -1 : 1))
}

function delivered(count: LaneCounts, hourMs: number): UsageHourRow {
  return {
    ...noUsageCounts,
    pipe_id: count.pipeId,
    hour_ms: hourMs,
    delivered_records: count.deliveredRecords,
    failed_attempts: count.failedAttempts,
    skipped_records: count.skippedRecords,
    filtered_records: count.filteredRecords,
    last_ingest_ms: null,
  }
}

/**
 * The row of a lane: its state as JSON text, the one column that other statements read, and a checksum.
 *
 *   destination_id   the key
 *   owner_epoch      the epoch of the owner that saved the row last: a save under an older epoch changes nothing
 *   state            JSON of `LaneState` without the two above; a field that is null is left out
 *   row_check        CRC-32 of the other three: without it, a flipped bit in a cursor would skip messages unnoticed
 *
 * A field that a stored state lacks has its value of `newLaneState`. So a new field needs no migration, unless an
 * earlier version would do harm by dropping it.
 */
export function encodeLane(lane: LaneState): LaneRow {
  const row = {
    destination_id: lane.destinationId,
    owner_epoch: lane.ownerEpoch,
    state: JSON.stringify(storedFields(lane)),
  }
  return { ...row, row_check: laneRowCheck(row) }
}

/** Throws LaneStateDamagedError. */
export function decodeLane(row: LaneRow): LaneState {
  if (!isLaneRowIntact(row)) throw new LaneStateDamagedError(row.destination_id, countersOf(row))
  return stateOf(row)
}

/**
 * For display only. A damaged row is shown as a lane at its start, where it continues once its owner has repaired it.
 */
export function shownLane(row: LaneRow): LaneState {
  return isLaneRowIntact(row) ? stateOf(row) : { ...newLaneState(row.destination_id), ...countersOf(row) }
}

function stateOf(row: LaneRow): LaneState {
  const state = JSON.parse(row.state) as Partial<LaneState>
  return { ...newLaneState(row.destination_id), ...state, ownerEpoch: row.owner_epoch }
}

export function isLaneRowIntact(row: LaneRow): boolean {
  return row.row_check === laneRowCheck(row)
}

export function laneRowCheck(row: Omit<LaneRow, 'row_check'>): number {
  return crc32(`${row.destination_id}\n${row.owner_epoch}\n${row.state}`)
}

/** Counters are only displayed, so those of a damaged row are kept if they are numbers. */
function countersOf({ state }: LaneRow): LaneCounters {
  const stored = parsed(state)
  const numberOf = (name: keyof LaneCounters) => {
    const value = stored[name]
    return typeof value === 'number' && Number.isSafeInteger(value) ? value : null
  }
  return {
    lastDeliveredMs: numberOf('lastDeliveredMs'),
    deliveredRecords: numberOf('deliveredRecords') ?? 0,
    filteredRecords: numberOf('filteredRecords') ?? 0,
    skippedMessages: numberOf('skippedMessages') ?? 0,
    droppedMessages: numberOf('droppedMessages') ?? 0,
    deliveredAttempts: numberOf('deliveredAttempts') ?? 0,
    failedAttempts: numberOf('failedAttempts') ?? 0,
  }
}

function parsed(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
