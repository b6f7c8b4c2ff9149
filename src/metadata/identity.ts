/**
 * The identity of a data directory and its epochs, which metadata, the buffer and backups compare with each other. It
 * is created in the transaction that creates the tables, so a database that opens has one.
 */
import { randomUUID } from 'node:crypto'
import { type Epoch, firstEpochs } from '../contract/epochs.ts'
import { fixedThrough } from './lane-state.ts'
import { decodeLane, isLaneRowIntact } from './lane-store.ts'
import type { LaneRow } from './tables.ts'
import type { Connection } from './transactions.ts'

/** The identity of a data directory. */
export interface DataDirIdentity {
  readonly dataDirId: string
  /** Oldest first. The last one is the current one. */
  readonly epochs: readonly Epoch[]
}

export const identitySettings = { id: 'data_dir_id', epochs: 'epochs' } as const

/** Reads the identity from the settings rows. Null: there is none yet. */
export function identityOf(settings: ReadonlyMap<string, string>): DataDirIdentity | null {
  const dataDirId = settings.get(identitySettings.id)
  if (dataDirId === undefined) return null
  const epochs = JSON.parse(settings.get(identitySettings.epochs) ?? 'null') as Epoch[] | null
  return { dataDirId, epochs: epochs ?? firstEpochs }
}

/** Returns the settings rows of an identity. */
export function identityRows({ dataDirId, epochs }: DataDirIdentity) {
  return [
    { name: identitySettings.id, value: dataDirId },
    { name: identitySettings.epochs, value: JSON.stringify(epochs) },
  ]
}

/** Gives a new database its identity. Runs inside the transaction that creates its tables. */
export async function giveIdentity(trx: Connection): Promise<void> {
  const rows = identityRows({ dataDirId: randomUUID(), epochs: firstEpochs })
  await trx.insertInto('metadata_settings').values(rows).execute()
}

export async function loadIdentity(db: Connection): Promise<DataDirIdentity | null> {
  const rows = await db
    .selectFrom('metadata_settings')
    .selectAll()
    .where('name', 'in', Object.values(identitySettings))
    .execute()
  return identityOf(new Map(rows.map(({ name, value }) => [name, value])))
}

/**
 * Returns the greatest seq that metadata refers to: in cursors, fixed ranges and epochs. A lane's row that fails its
 * checksum is ignored.
 */
export async function loadKnownSeq(db: Connection): Promise<number> {
  const rows = await db.selectFrom('lanes').selectAll().execute()
  return knownSeqOf(rows, (await loadIdentity(db))?.epochs ?? [])
}

/** Computes the same from rows. */
export function knownSeqOf(rows: readonly LaneRow[], epochs: readonly Epoch[]): number {
  const named = rows
    .filter(isLaneRowIntact)
    .map(decodeLane)
    .flatMap((lane) => [lane.cursorSeq, fixedThrough(lane)])
  let knownSeq = 0
  for (const seq of [...named, ...epochs.map(({ after_seq }) => after_seq)]) {
    knownSeq = Math.max(knownSeq, seq)
  }
  return knownSeq
}
