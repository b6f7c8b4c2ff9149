/**
 * Driver of MySQL-family databases (MySQL, MariaDB, Aurora): prepared multi-row inserts or upserts, one transaction per batch.
 *
 * One connection per lane, opened for the first batch. The table's description is read once per connection, and again after a
 * permanent error, because a user may have corrected the table.
 *
 * A COMMIT whose reply was lost may have succeeded. The lane sends the same batch again; with a dedupe_id column nothing is
 * stored twice. With `exactly_once` the lane's mark moves in the batch's transaction (`sql/exactly-once-mark.ts`), and tells
 * the next attempt which records are stored.
 */
import type {
  AttemptProgress,
  Batch,
  DatabaseSpec,
  DestinationDriver,
  DriverModule,
  DriverSettings,
  PinServerKey,
  RejectedRecord,
} from '../driver.ts'
import { DeliveryError, noProgress } from '../driver.ts'
import { parkAll } from '../park.ts'
import { markBusy, maxReads } from '../sql/exactly-once-mark.ts'
import { type AdmitServer, pinnedOnFirstUse } from '../sql/server-key.ts'
import { checkMysql } from './check.ts'
import { connectMysql, type MysqlConnection } from './connection.ts'
import { mysqlError } from './errors.ts'
import { ExactlyOnceMark, forgetMarks } from './exactly-once-mark.ts'
import { inferMysql } from './infer.ts'
import { storeOtherRows, storeRows } from './insert.ts'
import { rowsOf } from './rows.ts'
import { type InsertPlan, planInsert } from './statement.ts'

/** The server ends a session whose client is gone: its open transaction would otherwise keep the lane's mark locked. */
const idleSessionSeconds = 120

export const mysql: DriverModule<DatabaseSpec> = {
  open: (spec, settings, pin) => new MysqlDriver(spec, settings, pin),
  check: checkMysql,
  infer: inferMysql,
  forget: forgetMarks,
}

interface Session {
  connection: MysqlConnection
  plan: InsertPlan
}

class MysqlDriver implements DestinationDriver {
  readonly #spec: DatabaseSpec
  readonly #settings: DriverSettings
  readonly #admit: AdmitServer
  #connection: MysqlConnection | null = null
  #plan: InsertPlan | null = null
  #mark: ExactlyOnceMark | null = null

  constructor(spec: DatabaseSpec, settings: DriverSettings, pin: PinServerKey) {
    this.#spec = spec
    this.#settings = settings
    this.#admit = pinnedOnFirstUse(spec, pin, settings)
  }

  async deliver(batch: Batch, signal: AbortSignal, progress: AttemptProgress = noProgress): Promise<void> {
    const onAbort = () => this.#connection?.destroy()
    let isCommitting = false
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal.aborted) throw aborted(false)
      this.#connection?.beginAttempt()
      const session = await this.#ready(signal)
      if (!this.#spec.config.exactly_once) await this.#store(session, batch, progress)
      else if (!(await this.#storeOnce(session, batch, progress))) return
      isCommitting = true
      await session.connection.command('COMMIT')
      this.#mark?.committed()
    } catch (error) {
      await this.#afterFailure(error)
      if (signal.aborted) throw aborted(isCommitting)
      throw mysqlError(this.#connection?.readError() ?? error, batch.firstSeq)
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  async close(): Promise<void> {
    const closing = this.#connection
    this.#connection = null
    if (closing?.isAlive()) await closing.close()
  }

  async #ready(signal: AbortSignal): Promise<Session> {
    const { config, columns, timestampField } = this.#spec
    let connection = this.#connection
    if (connection === null || !connection.isAlive()) {
      this.#plan = null
      this.#mark = null
      connection = await connectMysql(this.#spec, this.#settings, this.#admit, signal)
      this.#connection = connection
      if (config.exactly_once) await connection.command(`SET SESSION wait_timeout = ${idleSessionSeconds}`)
    }
    if (this.#plan === null) {
      const table = await connection.describe(config.table)
      this.#plan = planInsert(table, columns, timestampField)
    }
    return { connection, plan: this.#plan }
  }

  /**
   * False: the whole batch was stored before. True: the missing records are inserted but not committed, and the lane's mark has
   * moved.
   */
  async #storeOnce(session: Session, batch: Batch, progress: AttemptProgress): Promise<boolean> {
    const { connection, plan } = session
    this.#mark ??= await ExactlyOnceMark.open(connection, plan.table, this.#spec, this.#settings)
    const mark = this.#mark
    for (let look = 0; look < maxReads; look++) {
      const rest = await mark.undelivered(batch, progress)
      if (rest !== null && (await mark.move(rest)) && (await this.#store(session, rest, progress)))
        return true
      await connection.command('ROLLBACK')
      if (rest === null) return false
    }
    throw markBusy(mark.table)
  }

  /**
   * False: another attempt has moved the lane's mark. Otherwise everything is inserted but not committed, except for parked
   * records.
   */
  async #store({ connection, plan }: Session, batch: Batch, { park }: AttemptProgress): Promise<boolean> {
    if (park === null) {
      await storeRows(connection, plan, rowsOf(batch, plan))
      return true
    }
    const unfit: RejectedRecord[] = []
    const rows = rowsOf(batch, plan, (rejected) => void unfit.push(rejected))
    const refused = await storeOtherRows(connection, plan, rows, async () => {
      this.#mark?.rolledBack()
      return this.#mark === null || (await this.#mark.move(batch))
    })
    if (refused === 'moved') return false
    await parkAll(park, [...unfit, ...refused])
    return true
  }

  /** After a failure: an open transaction must not hold locks until the next attempt. */
  async #afterFailure(error: unknown): Promise<void> {
    this.#plan = null
    this.#mark = null
    const connection = this.#connection
    if (!connection?.isAlive()) return
    const isOrderly = error instanceof DeliveryError || mysqlError(error, 0).class === 'permanent'
    if (isOrderly) await connection.command('ROLLBACK').catch(() => connection.destroy())
    else connection.destroy()
  }
}

/** The server rolls an uncommitted transaction back when its connection ends. */
function aborted(isCommitting: boolean): DeliveryError {
  return new DeliveryError('transient', 'aborted', 'The attempt was cancelled, and the connection closed.', {
    timedOut: isCommitting ? 'unknown' : 'rolled_back',
  })
}
