/**
 * Driver of MySQL-family databases (MySQL, MariaDB, Aurora): prepared multi-row inserts or upserts, one transaction per batch.
 *
 * One connection per lane, opened for the first batch. The table's description is read once per connection; after a
 * permanent error it is read again, since somebody may have corrected the table meanwhile.
 *
 * A COMMIT whose reply was lost may have happened. The lane sends the same batch again; with a dedupe_id column
 * nothing is stored twice.
 */
import type {
  Batch,
  DatabaseSpec,
  DestinationDriver,
  DriverModule,
  DriverSettings,
  PinServerKey,
} from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { pinnedOnFirstUse } from '../sql/server-key.ts'
import { checkMysql } from './check.ts'
import { connectMysql, type MysqlConnection } from './connection.ts'
import { mysqlError } from './errors.ts'
import { storeRows } from './insert.ts'
import { rowsOf } from './rows.ts'
import { type InsertPlan, planInsert } from './statement.ts'

export const mysql: DriverModule<DatabaseSpec> = { open: openMysql, check: checkMysql }

function openMysql(spec: DatabaseSpec, settings: DriverSettings, pin: PinServerKey): DestinationDriver {
  const admit = pinnedOnFirstUse(pin, settings)
  let connection: MysqlConnection | null = null
  let plan: InsertPlan | null = null

  async function ready(signal: AbortSignal): Promise<{ connection: MysqlConnection; plan: InsertPlan }> {
    if (connection === null || !connection.isAlive()) {
      plan = null
      connection = await connectMysql(spec, settings, admit, signal)
    }
    if (plan === null) {
      const table = await connection.describe(spec.config.table)
      plan = planInsert(table, spec.columns, spec.timestampField)
    }
    return { connection, plan }
  }

  /** After a failure: an open transaction must not hold locks until the next attempt. */
  async function afterFailure(error: unknown): Promise<void> {
    plan = null
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

  async function deliver(batch: Batch, signal: AbortSignal): Promise<void> {
    const onAbort = () => connection?.destroy()
    let isCommitting = false
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal.aborted) throw aborted(false)
      connection?.beginAttempt()
      const session = await ready(signal)
      await storeRows(session.connection, session.plan, rowsOf(batch, session.plan))
      isCommitting = true
      await session.connection.command('COMMIT')
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
  return new DeliveryError('transient', 'aborted', 'The attempt was stopped; the connection was dropped.', {
    timedOut: isCommitting ? 'unknown' : 'rolled_back',
  })
}
