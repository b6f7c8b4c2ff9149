/**
 * Reads the rows of the metadata file that have changed, for its replica. Triggers have recorded them
 * (`row-change-triggers.ts`); `apply-row-changes.ts` applies them to a copy.
 *
 *   | the process ends …                     | the next start                                                    |
 *   |----------------------------------------|-------------------------------------------------------------------|
 *   | in the transaction of a change         | neither the change nor its record exists                          |
 *   | before `taken` is committed            | the changes are recorded and are taken                            |
 *   | after it, or before `release`          | the same rows are taken again, in their latest state              |
 *   | in `release`                           | some rows are forgotten, all of which are stored in the replica   |
 *   | in `copyTo`                            | the unfinished copy is useless; the file is unchanged             |
 *
 * The two writes here, `taken` and the release, are not synced. A power cut can undo them, but then it also undoes all
 * later transactions, and no `take` from before the cut is released after it.
 */
import { closeSync, openSync, rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { errorCode, StorageUnavailableError } from '../../platform/error-code.ts'
import { onFile } from '../../platform/storage-error.ts'
import { busyTimeoutMs } from './file.ts'
import { quoted, recordedTables, recordingIdOf, stopRecordingRowChanges } from './row-change-triggers.ts'
import { type EncodedTable, RowChangesError, RowEncoder, type StoredValue } from './row-encoding.ts'

export interface RowChanges {
  /** See `recordRowChanges`. */
  readonly recordingId: string
  /**
   * The latest state of rows that changed, oldest change first, at most `maxBytes` encoded (at least one row). Null:
   * nothing changed. All rows are of one moment. `more`: rows are left; until a take without more, a copy is not a state
   * that the file ever had.
   *
   * Take again only after `release`: retry the slot with the rows that were taken. Otherwise rows that are created and
   * deleted meanwhile stay recorded.
   */
  take(maxBytes: number): { rows: Buffer; count: number; through: number; more: boolean } | null
  /** Forgets the taken changes, except of rows that changed again since. Can be repeated. */
  release(through: number): void
  /** The number of recorded changes that are not released. */
  pending(): number
  /**
   * A consistent copy of the whole file, without the records of changes. It never blocks a writer, and the event loop only
   * for a few ms at a time. `file` must not exist; an unfinished copy is removed.
   */
  copyTo(file: string, signal?: AbortSignal): Promise<void>
  close(): void
}

/** Throws RowChangesError if changes are not recorded. */
export function openRowChanges(file: string): RowChanges {
  return new RecordedChanges(file)
}

/** The list of changes is read in pages, so that a long outage needs no memory. */
const changesPerPage = 500
/** A release holds the write lock for about a millisecond per step. */
const releasedPerStep = 500
const copiedPagesPerStep = 256

/** How a row of a table, and the key of a row that does not exist, are read. */
interface Selects {
  table: EncodedTable
  row: Database.Statement<[number]>
  key: Database.Statement<[number]>
}

class RecordedChanges implements RowChanges {
  readonly recordingId: string
  readonly #file: string
  /** Holds the snapshot of a take. */
  readonly #reader: Database.Database
  readonly #writer: Database.Database
  readonly #selects = new Map<string, Selects>()

  constructor(file: string) {
    this.#file = file
    this.#reader = new Database(file, { readonly: true, fileMustExist: true, timeout: busyTimeoutMs })
    this.#writer = new Database(file, { fileMustExist: true, timeout: busyTimeoutMs })
    // Not synced: see above.
    this.#writer.pragma('synchronous = NORMAL')
    const id = recordingIdOf(this.#reader)
    if (id === null) {
      this.close()
      throw new RowChangesError(`changes of ${file} are not recorded`)
    }
    this.recordingId = id
  }

  take(maxBytes: number) {
    return this.#onFile('reading', () => {
      if (this.#reader.prepare('SELECT 1 FROM row_changes LIMIT 1').get() === undefined) return null
      this.#beginSnapshot(this.#reader)
      try {
        const taken = this.#read(maxBytes)
        return taken.count === 0 ? null : taken
      } finally {
        this.#reader.exec('COMMIT')
      }
    })
  }

  /**
   * Marks everything that is committed as taken, and begins to read exactly that: the write lock keeps other changes out
   * until the snapshot is taken. Otherwise a row could change between the two and be released with its change unread.
   */
  #beginSnapshot(reader: Database.Database): void {
    this.#writer
      .transaction(() => {
        this.#writer
          .prepare(
            `UPDATE row_change_state SET taken = (SELECT max(number) FROM row_changes)
             WHERE taken < (SELECT max(number) FROM row_changes)`,
          )
          .run()
        reader.exec('BEGIN')
        reader.prepare('SELECT 1 FROM row_change_state').get()
      })
      .immediate()
  }

  #read(maxBytes: number) {
    const encoder = new RowEncoder(maxBytes)
    const page = this.#reader.prepare<[number], { number: number; table_name: string }>(
      `SELECT number, table_name FROM row_changes WHERE number > ? ORDER BY number LIMIT ${changesPerPage}`,
    )
    let through = 0
    for (;;) {
      const changes = page.all(through)
      for (const { number, table_name } of changes) {
        if (!this.#add(encoder, number, table_name)) return { ...finished(encoder, through), more: true }
        through = number
      }
      if (changes.length < changesPerPage) return { ...finished(encoder, through), more: false }
    }
  }

  #add(encoder: RowEncoder, number: number, tableName: string): boolean {
    const { table, row, key } = this.#select(tableName)
    const stored = row.get(number)
    return stored === undefined
      ? encoder.add('deletion', table, storedValues(key.get(number) as unknown[]))
      : encoder.add('row', table, storedValues(stored as unknown[]))
  }

  /** The statement for a row joins both tables, so that the key never leaves SQLite. */
  #select(name: string): Selects {
    const known = this.#selects.get(name)
    if (known !== undefined) return known
    const table = recordedTables(this.#reader).find((one) => one.name === name)
    if (table === undefined) throw new RowChangesError(`a change of the table ${name}, which does not exist`)
    const key = table.key.map((column, index) => ({
      stored: `row.${quoted(column)}`,
      changed: `change.key_${index + 1}`,
    }))
    const isRow = key.map(({ stored, changed }) => `${stored} = ${changed}`).join(' AND ')
    const prepare = (columns: readonly string[], from: string) =>
      this.#reader
        .prepare<[number]>(`SELECT ${exact(columns)} FROM ${from} WHERE change.number = ?`)
        .raw()
        .safeIntegers()
    const select = {
      table,
      row: prepare(
        table.columns.map((column) => `row.${quoted(column)}`),
        `row_changes AS change JOIN ${quoted(name)} AS row ON ${isRow}`,
      ),
      key: prepare(
        key.map(({ changed }) => changed),
        'row_changes AS change',
      ),
    }
    this.#selects.set(name, select)
    return select
  }

  release(through: number): void {
    this.#onFile('writing', () => {
      const step = this.#writer.prepare(
        `DELETE FROM row_changes WHERE number IN (SELECT number FROM row_changes
         WHERE number <= min(?, (SELECT taken FROM row_change_state)) ORDER BY number LIMIT ${releasedPerStep})`,
      )
      while (step.run(through).changes === releasedPerStep);
    })
  }

  pending(): number {
    return this.#reader.prepare<[], number>('SELECT count(*) FROM row_changes').pluck().get() ?? 0
  }

  async copyTo(file: string, signal?: AbortSignal): Promise<void> {
    closeSync(openSync(file, 'wx', 0o600))
    const source = new Database(this.#file, { readonly: true, fileMustExist: true, timeout: busyTimeoutMs })
    try {
      // In a read transaction all steps see one state. Without it each commit of another connection restarts the copy.
      // Rows of the copy count as taken: the replica has them, so that their deletion must reach it.
      this.#onFile('reading', () => this.#beginSnapshot(source))
      await source.backup(file, {
        progress: () => {
          signal?.throwIfAborted()
          return copiedPagesPerStep
        },
      })
      withoutRecords(file)
    } catch (error) {
      for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${file}${end}`, { force: true })
      throw error
    } finally {
      source.close()
    }
  }

  close(): void {
    this.#reader.close()
    this.#writer.close()
  }

  #onFile<T>(operation: string, run: () => T): T {
    try {
      return onFile(operation, this.#file, run)
    } catch (error) {
      if (errorCode(error)?.startsWith('SQLITE_BUSY') !== true) throw error
      throw new StorageUnavailableError(
        `metadata: the file was locked by another process for ${busyTimeoutMs / 1000} s`,
        error,
      )
    }
  }
}

function finished(encoder: RowEncoder, through: number) {
  return { rows: encoder.finish(), count: encoder.count, through }
}

function withoutRecords(file: string): void {
  const copy = new Database(file)
  try {
    stopRecordingRowChanges(copy)
  } finally {
    copy.close()
  }
}

/** Selects the first letter of the type of each column in one text, and the values, of which text is bytes. */
function exact(columns: readonly string[]): string {
  const types = columns.map((column) => `substr(typeof(${column}), 1, 1)`).join(' || ')
  const values = columns.map(
    (column) => `iif(typeof(${column}) = 'text', CAST(${column} AS BLOB), ${column})`,
  )
  return [types, ...values].join(', ')
}

function storedValues([types, ...values]: readonly unknown[]): StoredValue[] {
  return values.map((value, index) => storedValue((types as string)[index], value))
}

function storedValue(type: string | undefined, value: unknown): StoredValue {
  if (type === 'i') return { kind: 'integer', value: value as bigint }
  if (type === 'r') return { kind: 'real', value: value as number }
  if (type === 't') return { kind: 'text', bytes: value as Buffer }
  return type === 'b' ? { kind: 'blob', bytes: value as Buffer } : { kind: 'null' }
}
