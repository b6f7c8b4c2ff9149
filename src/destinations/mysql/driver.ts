/**
 * Driver of MySQL-family databases (MySQL, MariaDB, Aurora): prepared multi-row inserts or upserts, one transaction per batch.
 *
 * One connection per lane, opened for the first batch. The table's description is read once per connection; after a
 * permanent error it is read again, since somebody may have corrected the table meanwhile.
 *
 * A COMMIT whose reply was lost may have happened. The lane sends the same batch again; with a dedupe_id column
 * nothing is stored twice. With `exactly_once` the lane's mark moves in the batch's transaction (`sql/exactly-once-mark.ts`), and
 * says before the next attempt what of the batch is there.
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
import { markBusy, mostReads } from '../sql/exactly-once-mark.ts'
import { pinnedOnFirstUse } from '../sql/server-key.ts'
import { checkMysql } from './check.ts'
import { connectMysql, type MysqlConnection } from './connection.ts'
import { mysqlError } from './errors.ts'
import { ExactlyOnceMark, forgetMarks } from './exactly-once-mark.ts'
import { inferMysql } from './infer.ts'
import { storeOtherRows, storeRows } from './insert.ts'
import { rowsOf } from './rows.ts'
import { type InsertPlan, planInsert } from './statement.ts'

/** The server ends a session whose client is gone: its open transaction would keep the lane's mark locked. */
const idleSessionSeconds = 120

export const mysql: DriverModule<DatabaseSpec> = {
  open: openMysql,
  check: checkMysql,
  infer: inferMysql,
  forget: forgetMarks,
}

function openMysql(spec: DatabaseSpec, settings: DriverSettings, pin: PinServerKey): DestinationDriver {
  const admit = pinnedOnFirstUse(spec, pin, settings)
  let connection: MysqlConnection | null = null
  let plan: InsertPlan | null = null
  let mark: ExactlyOnceMark | null = null

  async function ready(signal: AbortSignal): Promise<{ connection: MysqlConnection; plan: InsertPlan }> {
    if (connection === null || !connection.isAlive()) {
      plan = null
      mark = null
      connection = await connectMysql(spec, settings, admit, signal)
      if (spec.config.exactly_once)
        await connection.command(`SET SESSION wait_timeout = ${idleSessionSeconds}`)
    }
    if (plan === null) {
      const table = await connection.describe(spec.config.table)
      plan = planInsert(table, spec.columns, spec.timestampField)
    }
    return { connection, plan }
  }

  /** False: all of the batch was there. True: what was not is, uncommitted, and the lane's mark has moved. */
  async function storeOnce(
    session: { connection: MysqlConnection; plan: InsertPlan },
    batch: Batch,
    progress: AttemptProgress,
  ): Promise<boolean> {
    mark ??= await ExactlyOnceMark.open(session.connection, session.plan.table, spec, settings)
    for (let look = 0; look < mostReads; look++) {
      const rest = await mark.undelivered(batch, progress)
      if (rest !== null && (await mark.move(rest)) && (await store(session, rest, progress))) return true
      await session.connection.command('ROLLBACK')
      if (rest === null) return false
    }
    throw markBusy(mark.table)
  }

  /** False: the lane's mark is not where it was. Otherwise all is stored, uncommitted, except for what is parked. */
  async function store(
    session: { connection: MysqlConnection; plan: InsertPlan },
    batch: Batch,
    progress: AttemptProgress,
  ): Promise<boolean> {
    const { connection, plan } = session
    const { park } = progress
    if (park === null) {
      await storeRows(connection, plan, rowsOf(batch, plan))
      return true
    }
    const unfit: RejectedRecord[] = []
    const rows = rowsOf(batch, plan, (rejected) => void unfit.push(rejected))
    const refused = await storeOtherRows(connection, plan, rows, async () => {
      mark?.rolledBack()
      return mark === null || (await mark.move(batch))
    })
    if (refused === 'moved') return false
    await parkAll(park, [...unfit, ...refused])
    return true
  }

  /** After a failure: an open transaction must not hold locks until the next attempt. */
  async function afterFailure(error: unknown): Promise<void> {
    plan = null
    mark = null
    if (!connection?.isAlive()) return
    const isOrderly = error instanceof DeliveryError || mysqlError(error, 0).class === 'permanent'
    if (isOrderly) await connection.command('ROLLBACK').catch(() => connection?.destroy())
    else connection.destroy()
  }

  async function close(): Promise<void> {
    const closing = connection
    connection = null
    if (closing?.isAlive()) await closing.close()
  }

  async function deliver(
    batch: Batch,
    signal: AbortSignal,
    progress: AttemptProgress = noProgress,
  ): Promise<void> {
    const onAbort = () => connection?.destroy()
    let isCommitting = false
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal.aborted) throw aborted(false)
      connection?.beginAttempt()
      const session = await ready(signal)
      if (!spec.config.exactly_once) await store(session, batch, progress)
      else if (!(await storeOnce(session, batch, progress))) return
      isCommitting = true
      await session.connection.command('COMMIT')
      mark?.committed()
    } catch (error) {
      await afterFailure(error)
      if (signal.aborted) throw aborted(isCommitting)
      throw mysqlError(connection?.readError() ?? error, batch.firstSeq)
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  return { deliver, close }
}

/** The server rolls an uncommitted transaction back when its connection ends. */
function aborted(isCommitting: boolean): DeliveryError {
  return new DeliveryError('transient', 'aborted', 'The attempt was cancelled, and the connection closed.', {
    timedOut: isCommitting ? 'unknown' : 'rolled_back',
  })
}
