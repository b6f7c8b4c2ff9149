/** Statements that insert a row, for the repositories whose rows have an order and unique names. */
import { type Insertable, type InsertQueryBuilder, type InsertResult, sql } from 'kysely'
import type { Tables } from './tables.ts'
import type { Connection } from './transactions.ts'

/** One more than the greatest number in the column, among the rows that have these values; 1 if there are none. */
export async function nextNumber<T extends keyof Tables>(
  trx: Connection,
  table: T,
  column: keyof Tables[T] & string,
  among: Partial<Tables[T]>,
): Promise<number> {
  const same = Object.entries(among).map(([name, value]) => sql`${sql.ref(name)} = ${value}`)
  const where = same.length === 0 ? sql`` : sql`WHERE ${sql.join(same, sql` AND `)}`
  const { rows } = await sql<{ next: number }>`
    SELECT coalesce(max(${sql.ref(column)}), 0) + 1 AS next FROM ${sql.table(table)} ${where}`.execute(trx)
  return rows[0]!.next
}

/** False: a unique value of the row is taken, and nothing is inserted. */
export async function insertUnlessTaken<T extends keyof Tables>(
  trx: Connection,
  table: T,
  row: Insertable<Tables[T]>,
): Promise<boolean> {
  const insert: InsertQueryBuilder<Tables, T, InsertResult> = trx.insertInto(table)
  const { numInsertedOrUpdatedRows } = await insert
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}
