/**
 * Driver of MySQL-family databases (MySQL, MariaDB, Aurora): prepared multi-row inserts or upserts, one transaction a batch.
 *
 * One connection a lane: opened for the first batch, kept while batches come, closed after a minute without one. What
 * the table looks like is read once a connection; after a permanent error it is read again, since somebody may have
 * mended the table meanwhile.
 *
 * A COMMIT whose answer was lost may have happened. The lane sends the same batch again; with a dedupe_id column
 * nothing is stored twice.
 */
import type { Batch, DestinationDriver, DestinationSpec, DriverModule, DriverSettings } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { checkMysql } from './mysql-check.ts'
import { connectMysql, type MysqlConnection } from './mysql-connection.ts'
import { mysqlError } from './mysql-errors.ts'
import { storeRows } from './mysql-insert.ts'
import { type InsertPlan, planInsert } from './mysql-plan.ts'
import { rowsOf } from './mysql-rows.ts'

export const mysql: DriverModule = { open: openMysql, check: checkMysql }

const idleMs = 60_000

function openMysql(spec: DestinationSpec, settings: DriverSettings): DestinationDriver {
  let connection: MysqlConnection | null = null
  let plan: InsertPlan | null = null
  let idle: NodeJS.Timeout | undefined

  async function ready(signal: AbortSignal): Promise<{ connection: MysqlConnection; plan: InsertPlan }> {
    if (connection === null || !connection.isAlive()) {
      plan = null
      connection = await connectMysql(spec, settings, signal)
    }
    if (plan === null) {
      const table = await connection.describe(String(spec.config.table))
      plan = planInsert(table, spec.columns, spec.timestampField)
    }
    return { connection, plan }
  }

  /** After a failure: an open transaction must not hold locks until the next attempt. */
  async function tidy(error: unknown): Promise<void> {
    plan = null
    if (!connection?.isAlive()) return
    const isOrderly = error instanceof DeliveryError || mysqlError(error, 0).class === 'permanent'
    if (isOrderly) await connection.command('ROLLBACK').catch(() => connection?.destroy())
    else connection.destroy()
  }

  async function close(): Promise<void> {
    clearTimeout(idle)
    const closing = connection
    connection = null
    if (closing?.isAlive()) await closing.close()
  }

  async function deliver(batch: Batch, signal: AbortSignal): Promise<void> {
    clearTimeout(idle)
    const onAbort = () => connection?.destroy()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal.aborted) throw aborted()
      const session = await ready(signal)
      await storeRows(session.connection, session.plan, rowsOf(batch, session.plan))
    } catch (error) {
      await tidy(error)
      throw signal.aborted ? aborted() : mysqlError(error, batch.firstSeq)
    } finally {
      signal.removeEventListener('abort', onAbort)
      idle = setTimeout(() => void close(), idleMs)
      idle.unref()
    }
  }

  return { deliver, close }
}

function aborted(): DeliveryError {
  return new DeliveryError('transient', 'aborted', 'The attempt was stopped; the connection was dropped.')
}
