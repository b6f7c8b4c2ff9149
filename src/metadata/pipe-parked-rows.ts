/**
 * Writes of rows parked at a pipe, for ingest and for users. Every change of a row updates the sums of its pipe in the
 * same transaction, so the sums always equal a count. The foreign keys' cascade deletes rows and sums with their pipe.
 */
import { slices } from '../platform/slices.ts'
import { parkedRowBytes } from './parked-store-port.ts'
import { type NewPipeParked, type ParkOutcome, type ParkRequest, storedPath } from './pipe-parked-port.ts'
import { normaliseId, type PipeParkedRow, type PipeParkedSumRow } from './tables.ts'
import type { Connection } from './transactions.ts'

/** Keeps a statement below every database's limit of parameters. */
const rowsAtOnce = 25
const idsAtOnce = 500

type Sums = Omit<PipeParkedSumRow, 'pipe_id'>

/** Parks requests one after the other in a transaction. Each sees the room that the ones before it have left. */
export async function parkRequests(
  trx: Connection,
  requests: readonly ParkRequest[],
  maxBytes: number,
  nowMs: number,
): Promise<ParkOutcome[]> {
  const known = await knownIds(trx, requests)
  const pipes = await existingPipes(trx, requests)
  const room = await Room.read(trx, maxBytes, requests)
  const added: PipeParkedRow[] = []
  const outcomes = requests.map((request): ParkOutcome => {
    const pipeId = normaliseId(request.pipeId)
    if (!pipes.has(pipeId)) return { kind: 'gone' }
    const fresh = request.records.filter(({ parkedId }) => !known.has(parkedId))
    const version = pipes.get(pipeId)!
    const rows = fresh.map((record) => newRow(request, record, { version, nowMs }))
    if (!room.take(normaliseId(request.workspaceId), pipeId, rows)) return { kind: 'full' }
    const first = request.records.find(({ parkedId }) => known.has(parkedId))
    const msgId = first === undefined ? request.msgId : known.get(first.parkedId)!
    for (const row of rows) {
      added.push(row)
      known.set(row.parked_id, msgId)
    }
    return { kind: 'parked', msgId }
  })
  for (const some of slices(added, rowsAtOnce)) await trx.insertInto('pipe_parked').values(some).execute()
  for (const [pipeId, rows] of byPipe(added)) await addToSums(trx, pipeId, sumsOf(rows, 1))
  return outcomes
}

/**
 * Removes rows of one pipe. `areDropped`: because of their age, and they are counted as dropped. A mark is left of rows
 * whose request had an Idempotency-Key.
 */
export async function removeRows(
  trx: Connection,
  pipeId: string,
  rows: readonly Pick<PipeParkedRow, 'parked_id' | 'msg_id' | 'is_keyed' | 'record_bytes'>[],
  { nowMs, areDropped = false }: { nowMs: number; areDropped?: boolean },
): Promise<void> {
  for (const some of slices(rows, idsAtOnce)) {
    const ids = some.map((row) => row.parked_id)
    await trx.deleteFrom('pipe_parked').where('parked_id', 'in', ids).execute()
  }
  const keyed = rows.filter((row) => row.is_keyed === 1)
  for (const some of slices(keyed, rowsAtOnce)) {
    const marks = some.map(({ parked_id, msg_id }) => ({
      parked_id,
      pipe_id: pipeId,
      msg_id,
      done_ms: nowMs,
    }))
    await trx
      .insertInto('pipe_parked_done')
      .values(marks)
      .onConflict((conflict) => conflict.column('parked_id').doNothing())
      .execute()
  }
  await addToSums(trx, pipeId, { ...sumsOf(rows, -1), dropped_records: areDropped ? rows.length : 0 })
}

export async function replaceText(
  trx: Connection,
  row: Pick<PipeParkedRow, 'parked_id' | 'pipe_id' | 'edits' | 'record_bytes'>,
  text: string,
): Promise<void> {
  const record_bytes = Buffer.byteLength(text)
  await trx
    .updateTable('pipe_parked')
    .set({ record: text, record_bytes, edits: row.edits + 1 })
    .where('parked_id', '=', row.parked_id)
    .execute()
  const change = { rows: 0, record_bytes: record_bytes - row.record_bytes, dropped_records: 0 }
  await addToSums(trx, row.pipe_id, change)
}

/** Returns the msg_id of each record that was parked before, whether it is still parked or not. */
async function knownIds(trx: Connection, requests: readonly ParkRequest[]): Promise<Map<string, string>> {
  const known = new Map<string, string>()
  const ids = requests.flatMap(({ isKeyed, records }) => (isKeyed ? records : [])).map((one) => one.parkedId)
  for (const some of slices(ids, idsAtOnce)) {
    for (const table of ['pipe_parked', 'pipe_parked_done'] as const) {
      const rows = await trx
        .selectFrom(table)
        .select(['parked_id', 'msg_id'])
        .where('parked_id', 'in', some)
        .execute()
      for (const row of rows) known.set(row.parked_id, row.msg_id)
    }
  }
  return known
}

/** Returns the version of the schema of each pipe that exists. 0: it has none. */
async function existingPipes(
  trx: Connection,
  requests: readonly ParkRequest[],
): Promise<Map<string, number>> {
  const ids = [...new Set(requests.map(({ pipeId }) => normaliseId(pipeId)))]
  const found = new Map<string, number>()
  for (const some of slices(ids, idsAtOnce)) {
    const rows = await trx
      .selectFrom('pipes')
      .leftJoin('schema_versions', 'schema_versions.pipe_id', 'pipes.pipe_id')
      .select('pipes.pipe_id')
      .select((eb) => eb.fn.max<number | null>('schema_versions.version').as('version'))
      .where('pipes.pipe_id', 'in', some)
      .groupBy('pipes.pipe_id')
      .execute()
    for (const row of rows) found.set(row.pipe_id, Number(row.version ?? 0))
  }
  return found
}

function newRow(
  request: ParkRequest,
  { parkedId, recordIndex, text, faults }: NewPipeParked,
  { version, nowMs }: { version: number; nowMs: number },
) {
  return {
    parked_id: parkedId,
    pipe_id: normaliseId(request.pipeId),
    msg_id: request.msgId,
    record_index: recordIndex,
    received_ms: request.receivedMs,
    parked_ms: nowMs,
    schema_version: version,
    error_path: storedPath(faults[0]?.path ?? ''),
    errors: JSON.stringify(faults),
    enrichment: JSON.stringify(request.enrichment),
    is_keyed: request.isKeyed ? 1 : 0,
    is_replaying: 0,
    edits: 0,
    record_bytes: Buffer.byteLength(text),
    record: text,
  } satisfies PipeParkedRow
}

function byPipe(rows: readonly PipeParkedRow[]): [string, PipeParkedRow[]][] {
  const found = new Map<string, PipeParkedRow[]>()
  for (const row of rows) {
    const ofPipe = found.get(row.pipe_id)
    if (ofPipe === undefined) found.set(row.pipe_id, [row])
    else ofPipe.push(row)
  }
  return [...found]
}

function sumsOf(rows: readonly Pick<PipeParkedRow, 'record_bytes'>[], sign: 1 | -1): Sums {
  const bytes = rows.reduce((sum, row) => sum + row.record_bytes, 0)
  return { rows: sign * rows.length, record_bytes: sign * bytes, dropped_records: 0 }
}

async function addToSums(trx: Connection, pipeId: string, sums: Sums): Promise<void> {
  if (Object.values(sums).every((sum) => sum === 0)) return
  await trx
    .insertInto('pipe_parked_sums')
    .values({ pipe_id: pipeId, ...sums })
    .onConflict((conflict) =>
      conflict.column('pipe_id').doUpdateSet((eb) => ({
        rows: eb('pipe_parked_sums.rows', '+', sums.rows),
        record_bytes: eb('pipe_parked_sums.record_bytes', '+', sums.record_bytes),
        dropped_records: eb('pipe_parked_sums.dropped_records', '+', sums.dropped_records),
      })),
    )
    .execute()
}

/** Returns the number of records parked at each pipe that has some, and the bytes that they count for. */
export async function takenByPipe(
  trx: Connection,
): Promise<{ pipeId: string; workspaceId: string; rows: number; bytes: number }[]> {
  const sums = await trx
    .selectFrom('pipe_parked_sums')
    .innerJoin('pipes', 'pipes.pipe_id', 'pipe_parked_sums.pipe_id')
    .select(['pipes.pipe_id', 'pipes.workspace_id', 'pipe_parked_sums.rows', 'pipe_parked_sums.record_bytes'])
    .where('pipe_parked_sums.rows', '>', 0)
    .execute()
  return sums.map((row) => ({
    pipeId: row.pipe_id,
    workspaceId: row.workspace_id,
    rows: row.rows,
    bytes: row.record_bytes + row.rows * parkedRowBytes,
  }))
}

/**
 * The room for records that are parked at pipes. Anyone who can send to a pipe can fill it, so the lanes keep half of
 * parked.max_bytes. With several workspaces none gets more than half of the other half, and with several pipes none gets
 * more than half of its workspace's part.
 */
class Room {
  readonly #maxBytes: number
  readonly #workspaces: number
  readonly #pipes: ReadonlyMap<string, number>
  #left: number
  readonly #taken = new Map<string, number>()

  static async read(trx: Connection, maxBytes: number, requests: readonly ParkRequest[]): Promise<Room> {
    const lanes = await trx
      .selectFrom('parked_sums')
      .select((eb) => [eb.fn.sum<number>('rows').as('rows'), eb.fn.sum<number>('body_bytes').as('bytes')])
      .executeTakeFirst()
    const laneBytes = Number(lanes?.bytes ?? 0) + Number(lanes?.rows ?? 0) * parkedRowBytes
    const workspaces = await trx
      .selectFrom('workspaces')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirst()
    const ids = [...new Set(requests.map(({ workspaceId }) => normaliseId(workspaceId)))]
    const pipes = await trx
      .selectFrom('pipes')
      .select('workspace_id')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('workspace_id', 'in', ids)
      .groupBy('workspace_id')
      .execute()
    const counts = new Map(pipes.map((row) => [row.workspace_id, row.count]))
    const taken = await takenByPipe(trx)
    return new Room(maxBytes, laneBytes, { workspaces: workspaces?.count ?? 0, pipes: counts }, taken)
  }

  private constructor(
    maxBytes: number,
    laneBytes: number,
    { workspaces, pipes }: { workspaces: number; pipes: ReadonlyMap<string, number> },
    taken: Awaited<ReturnType<typeof takenByPipe>>,
  ) {
    this.#maxBytes = maxBytes
    this.#workspaces = workspaces
    this.#pipes = pipes
    const bytes = taken.reduce((sum, one) => sum + one.bytes, 0)
    this.#left = Math.min(maxBytes / 2, maxBytes - laneBytes) - bytes
    for (const { workspaceId, pipeId, bytes: ofPipe } of taken) {
      this.#taken.set(pipeId, ofPipe)
      this.#taken.set(workspaceId, this.#takenBy(workspaceId) + ofPipe)
    }
  }

  /** False: there is no room for all of the rows. */
  take(workspaceId: string, pipeId: string, rows: readonly PipeParkedRow[]): boolean {
    const bytes = rows.reduce((sum, row) => sum + row.record_bytes + parkedRowBytes, 0)
    const ofWorkspace = this.#maxBytes / (this.#workspaces > 1 ? 4 : 2)
    const ofPipe = ofWorkspace / ((this.#pipes.get(workspaceId) ?? 1) > 1 ? 2 : 1)
    const hasRoom =
      bytes <= this.#left &&
      this.#takenBy(workspaceId) + bytes <= ofWorkspace &&
      this.#takenBy(pipeId) + bytes <= ofPipe
    if (rows.length === 0) return true
    if (!hasRoom) return false
    this.#left -= bytes
    this.#taken.set(workspaceId, this.#takenBy(workspaceId) + bytes)
    this.#taken.set(pipeId, this.#takenBy(pipeId) + bytes)
    return true
  }

  #takenBy(id: string): number {
    return this.#taken.get(id) ?? 0
  }
}
