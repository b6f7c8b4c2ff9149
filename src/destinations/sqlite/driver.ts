/**
 * Driver of SQLite files. A batch is one transaction of one file, which the table thread runs (`table-threads.ts`). Checks,
 * proposals of tables and deletions run in the thread that calls them: they have threads of their own.
 */
import type {
  AttemptProgress,
  Batch,
  DestinationDriver,
  DriverModule,
  DriverSettings,
  SqliteSpec,
} from '../driver.ts'
import { DeliveryError, noProgress } from '../driver.ts'
import { keysToForget, markKey } from '../sql/exactly-once-mark.ts'
import { checkSqlite } from './check.ts'
import { forgetMarks } from './exactly-once-mark.ts'
import { isTableFile } from './files.ts'
import { inferSqlite } from './infer.ts'
import { type PlacedFile, placeOf } from './place.ts'
import type { TableTarget } from './table-calls.ts'
import { OpenTableFile } from './table-file.ts'
import { connectionKey, OpenBatch, tableThreads } from './table-threads.ts'

export const sqlite: DriverModule<SqliteSpec> = {
  open: (spec, settings) => new SqliteDriver(spec, settings),
  check: checkSqlite,
  infer: inferSqlite,
  async forget(spec, settings) {
    const { path } = placeOf(spec, settings)
    // The file and its rows are kept: they are the user's.
    if (!spec.config.exactly_once || !isTableFile(path)) return
    const file = new OpenTableFile(path)
    try {
      forgetMarks(file.database, keysToForget(spec, settings))
    } finally {
      file.close()
    }
  },
}

class SqliteDriver implements DestinationDriver {
  readonly #spec: SqliteSpec
  readonly #settings: DriverSettings
  #target: TableTarget | null = null

  constructor(spec: SqliteSpec, settings: DriverSettings) {
    this.#spec = spec
    this.#settings = settings
  }

  async deliver(batch: Batch, signal: AbortSignal, progress: AttemptProgress = noProgress): Promise<void> {
    try {
      const place = placeOf(this.#spec, this.#settings)
      this.#target ??= targetOf(this.#spec, this.#settings, place)
      const turn = { group: place.workspaceId, member: this.#spec.destinationId }
      await tableThreads.store(this.#target, new OpenBatch(batch, progress, signal), turn)
    } catch (error) {
      // It concerns every message: the search for one at fault is not needed.
      const isWhole =
        error instanceof DeliveryError && error.class === 'permanent' && error.fault !== 'records'
      throw isWhole ? error.with({ failedSeq: batch.firstSeq }) : error
    }
  }

  async close(): Promise<void> {
    const key = this.#target?.key
    this.#target = null
    if (key !== undefined) await tableThreads.release(key)
  }
}

function targetOf(spec: SqliteSpec, settings: DriverSettings, place: PlacedFile): TableTarget {
  const { config, columns, timestampField, destinationId, isForReplays = false } = spec
  const target = {
    path: place.path,
    file: config.file,
    table: config.table,
    columns,
    timestampField,
    markKey: config.exactly_once ? markKey(spec, settings) : null,
    sizeLimitMib: config.size_limit_mib,
    minFreeBytes: place.minFreeBytes,
  }
  return { ...target, key: connectionKey(target, `${destinationId} ${isForReplays}`) }
}
