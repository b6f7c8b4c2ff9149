/**
 * Stores batches in table files: the part that runs in the table thread. One batch at a time, in one transaction of its file.
 *
 * Each lane has its own connection, which is kept for its next batch. The least recently used one is closed when there are too
 * many. A schema that was changed is read again, because the columns decide how a value is bound.
 */

import { resourceLimits } from '../../contract/resource-limits.ts'
import { PortionReader } from '../batch-portions.ts'
import type { DeliveryError } from '../driver.ts'
import { endsConnection, sqliteCode, sqliteError } from './errors.ts'
import { moveMark, readMark } from './exactly-once-mark.ts'
import { RowInserter } from './rows.ts'
import { type InsertPlan, planInsert } from './statement.ts'
import { describeTable } from './table.ts'
import type { BatchSource, StoreRequest, TableTarget } from './table-calls.ts'
import { OpenTableFile } from './table-file.ts'

const maxConnections = 16

export class TableStore {
  readonly #lanes = new Map<string, LaneTable>()

  /** Resolves when the batch is durable. Rejects with a DeliveryError. */
  async store(target: TableTarget, request: StoreRequest, source: BatchSource): Promise<void> {
    const lane = this.#laneOf(target)
    try {
      await lane.store(request, source)
    } catch (error) {
      if (!lane.isOpen) this.#lanes.delete(target.key)
      throw error
    }
  }

  /** The lane is closed, or its destination was changed. A batch of it that is still under way ends first. */
  release(key: string): void {
    const lane = this.#lanes.get(key)
    this.#lanes.delete(key)
    lane?.close()
  }

  close(): void {
    for (const key of [...this.#lanes.keys()]) this.release(key)
  }

  #laneOf(target: TableTarget): LaneTable {
    const lane = this.#lanes.get(target.key) ?? new LaneTable(target)
    this.#lanes.delete(target.key)
    this.#lanes.set(target.key, lane)
    for (const [key, { isBusy }] of this.#lanes) {
      if (this.#lanes.size <= maxConnections) break
      if (!isBusy && key !== target.key) this.release(key)
    }
    return lane
  }
}

interface Prepared {
  schemaVersion: number
  plan: InsertPlan
  inserter: RowInserter
}

class LaneTable {
  readonly #target: TableTarget
  #file: OpenTableFile | null = null
  #prepared: Prepared | null = null
  isBusy = false
  #isClosed = false

  constructor(target: TableTarget) {
    this.#target = target
  }

  get isOpen(): boolean {
    return this.#file !== null
  }

  async store(request: StoreRequest, source: BatchSource): Promise<void> {
    this.isBusy = true
    try {
      const file = this.#current()
      file.requireSpace(this.#target, request.byteCount)
      file.begin()
      await this.#fill(file, request, source)
      await source.mayCommit()
      file.commit()
    } catch (error) {
      throw this.#failed(error)
    } finally {
      this.isBusy = false
      if (this.#isClosed) this.#disconnect()
    }
  }

  close(): void {
    this.#isClosed = true
    if (!this.isBusy) this.#disconnect()
  }

  /** A file that was replaced since the last batch is opened again. */
  #current(): OpenTableFile {
    if (this.#file !== null && !this.#file.isCurrent) this.#disconnect()
    this.#file ??= new OpenTableFile(this.#target.path)
    return this.#file
  }

  /** Everything of the batch that is not stored yet, in the open transaction. */
  async #fill({ database }: OpenTableFile, { parks }: StoreRequest, source: BatchSource): Promise<void> {
    const { markKey } = this.#target
    const { inserter } = this.#prepare()
    if (markKey !== null) {
      const end = await source.begin(readMark(database, markKey))
      // All of it is stored. The commit makes sure that the file is still there.
      if (end === null) return
      moveMark(database, markKey, end)
    }
    inserter.begin(parks)
    const reader = new PortionReader()
    for (let portion = await source.next(); portion !== null; portion = await source.next()) {
      for (const { text, place } of reader.records(portion)) {
        inserter.insert(text, place)
        if (inserter.rejectedCount >= resourceLimits.parkedAtOnce) await source.park(inserter.takeRejected())
      }
    }
    if (inserter.rejectedCount > 0) await source.park(inserter.takeRejected())
  }

  /** Runs in the transaction: nothing changes the schema meanwhile. */
  #prepare(): Prepared {
    const { file, table, columns, timestampField } = this.#target
    const { database, schemaVersion } = this.#file!
    if (this.#prepared?.schemaVersion === schemaVersion) return this.#prepared
    const plan = planInsert(describeTable(database, file, table), columns, timestampField)
    this.#prepared = { schemaVersion, plan, inserter: new RowInserter(database, plan) }
    return this.#prepared
  }

  #failed(error: unknown): DeliveryError {
    const file = this.#file
    const name = `${this.#target.file}.sqlite`
    const failure =
      sqliteCode(error) === 'SQLITE_FULL' && file !== null
        ? file.fullError(this.#target)
        : sqliteError(error, name)
    this.#prepared = null
    try {
      file?.rollback()
    } catch {
      // The connection is closed, which ends the transaction.
      this.#disconnect()
    }
    file?.distrust(error)
    const isReplaced = file !== null && !file.isCurrent
    if (endsConnection(error) || isReplaced) this.#disconnect()
    return failure
  }

  #disconnect(): void {
    this.#file?.close()
    this.#file = null
    this.#prepared = null
  }
}
