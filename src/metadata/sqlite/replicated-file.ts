/** A metadata file that has a replica, or is made from one: opened for a moment, by its name. */
import Database from 'better-sqlite3'
import { applyRowChanges } from './apply-row-changes.ts'
import { busyTimeoutMs } from './file.ts'
import { recordRowChanges, stopRecordingRowChanges } from './row-change-triggers.ts'

/**
 * Begins or ends the recording of changes. One that has begun before continues. Call it before anything else writes to the
 * file. Durable when it returns.
 */
export function setRecording(file: string, isOn: boolean): void {
  withFile(file, (db) => {
    if (isOn) recordRowChanges(db)
    else stopRecordingRowChanges(db)
  })
}

/** Applies rows to a file that is being restored. */
export interface AppliedRows {
  /** Throws RowChangesError. */
  apply(rows: Buffer): void
  /** Everything is in the file, without a WAL. */
  close(): void
}

export function openAppliedRows(file: string): AppliedRows {
  const db = new Database(file, { fileMustExist: true, timeout: busyTimeoutMs })
  // Until the restore is complete, the file is made again after a crash.
  db.pragma('synchronous = OFF')
  return {
    apply: (rows) => applyRowChanges(db, rows),
    close() {
      db.pragma('wal_checkpoint(TRUNCATE)')
      db.close()
    },
  }
}

function withFile(file: string, change: (db: Database.Database) => void): void {
  const db = new Database(file, { fileMustExist: true, timeout: busyTimeoutMs })
  try {
    db.pragma('synchronous = FULL')
    change(db)
  } finally {
    db.close()
  }
}
