/** Lanes as a SQLite file of metadata stores them, read and changed behind the back of the program. */
import Database from 'better-sqlite3'
import type { LaneState } from '../../src/metadata/lane-state.ts'
import { decodeLane, encodeLane, shownLane } from '../../src/metadata/lane-store.ts'
import type { LaneRow } from '../../src/metadata/tables.ts'

/** Without `destinationId`: every lane. */
interface Which {
  destinationId?: string
}

export function storedLane(file: string, destinationId: string): LaneState | null {
  const database = new Database(file, { readonly: true })
  try {
    const row = database
      .prepare<[string], LaneRow>('SELECT * FROM lanes WHERE destination_id = ?')
      .get(destinationId)
    return row === undefined ? null : decodeLane(row)
  } finally {
    database.close()
  }
}

/** Does what a bad disk does: fields have another value and the checksum is as it was. */
export function damageLanes(
  file: string,
  change: (lane: LaneState) => Partial<LaneState>,
  which: Which = {},
): void {
  changeRows(file, which, (row) => {
    const { state, owner_epoch } = encodeLane({ ...shownLane(row), ...change(shownLane(row)) })
    return { ...row, state, owner_epoch }
  })
}

/** Fields have another value, and the row says that it was written so. */
export function changeLanes(file: string, changes: Partial<LaneState>, which: Which = {}): void {
  changeRows(file, which, (row) => encodeLane({ ...shownLane(row), ...changes }))
}

function changeRows(file: string, { destinationId }: Which, change: (row: LaneRow) => LaneRow): void {
  const database = new Database(file)
  try {
    const update = database.prepare(
      'UPDATE lanes SET state = ?, owner_epoch = ?, row_check = ? WHERE destination_id = ?',
    )
    for (const row of database.prepare<[], LaneRow>('SELECT * FROM lanes').all()) {
      if (destinationId !== undefined && row.destination_id !== destinationId) continue
      const { state, owner_epoch, row_check } = change(row)
      update.run(state, owner_epoch, row_check, row.destination_id)
    }
  } finally {
    database.close()
  }
}
