/**
 * Floors of the delivery bench: what a plain client needs to store the same records over one connection, one batch of 1,000 per
 * transaction or request, from values that are ready in memory. Only the sending is timed.
 *
 * PostgreSQL's floor is a COPY of the pg client and not psql's `\copy`: psql reads files and waits for its input between
 * transactions, and the server does the same for both.
 */
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { Client } from 'undici'
import { CopyIn, copyHeaderBytes } from '../src/destinations/postgresql/connection.ts'
import { record, recordColumns } from './records.ts'

export interface Floor {
  /** Stores `total` records into an empty target. Returns the seconds spent sending. */
  seconds(total: number): Promise<number>
}

export interface FloorTable {
  host: string
  port: number
  user: string
  password: string
  database: string
  /** Made and dropped by the floor. */
  table: string
  shape: string
  isUpsert: boolean
}

const batchRecords = 1_000
const columns = recordColumns.map(({ column_name }) => column_name)

/** `send` gets what `prepare` made of a batch's records. */
async function timed<T>(
  total: number,
  prepare: (records: string[]) => T,
  send: (batch: T) => Promise<unknown>,
): Promise<number> {
  let ms = 0
  for (let first = 0; first < total; first += batchRecords) {
    const size = Math.min(batchRecords, total - first)
    const batch = prepare(Array.from({ length: size }, (_, index) => record(first + index)))
    const startedAt = performance.now()
    await send(batch)
    ms += performance.now() - startedAt
  }
  return ms / 1000
}

export function httpFloor(url: string): Floor {
  return {
    async seconds(total) {
      const client = new Client(new URL(url).origin)
      const headers = { 'content-type': 'application/x-ndjson' }
      const prepare = (records: string[]) => Buffer.from(`${records.join('\n')}\n`)
      try {
        return await timed(total, prepare, async (body) => {
          const response = await client.request({ path: '/', method: 'POST', headers, body })
          await response.body.dump()
        })
      } finally {
        await client.close()
      }
    },
  }
}

/** COPY; for an upsert into a temporary table, and from there. */
export function postgresFloor({ table, shape, isUpsert, ...server }: FloorTable): Floor {
  const updates = columns.slice(1).map((name) => `${name} = excluded.${name}`)
  const upsert = `INSERT INTO ${table} SELECT * FROM staged ON CONFLICT (id) DO UPDATE SET ${updates.join(', ')}`
  return {
    async seconds(total) {
      const client = new pg.Client(server)
      await client.connect()
      const copy = (text: string, rows: Buffer) =>
        new Promise<void>((resolve, reject) => {
          client.query(new CopyIn(text, [rows], (error) => (error ? reject(error) : resolve())))
        })
      try {
        await client.query(`DROP TABLE IF EXISTS ${table}; CREATE TABLE ${table} (${shape})`)
        if (isUpsert)
          await client.query(`CREATE TEMPORARY TABLE staged (LIKE ${table}) ON COMMIT DELETE ROWS`)
        return await timed(total, copyRows, async (rows) => {
          await client.query('BEGIN')
          await copy(`COPY ${isUpsert ? 'staged' : table} FROM STDIN`, rows)
          await client.query(isUpsert ? `${upsert}; COMMIT` : 'COMMIT')
        })
      } finally {
        await client.query(`DROP TABLE IF EXISTS ${table}`)
        await client.end()
      }
    },
  }
}

function copyRows(records: string[]): Buffer {
  const escaped = (value: string) => value.replace(/[\\\t\n\r]/g, (one) => `\\${one}`)
  const lines = records.map((text) =>
    valuesOf(text)
      .map((value) => escaped(value))
      .join('\t'),
  )
  return Buffer.from(`${' '.repeat(copyHeaderBytes)}${lines.join('\n')}\n`)
}

/** One prepared INSERT of a batch's rows: nearly twice as fast as mysql2's `VALUES ?`, and no slower than LOAD DATA by more than a tenth. */
export function mariadbFloor({ table, shape, isUpsert, ...server }: FloorTable): Floor {
  const updates = columns.map((name) => `${name} = VALUES(${name})`)
  const clause = isUpsert ? ` ON DUPLICATE KEY UPDATE ${updates.join(', ')}` : ''
  const row = `(${columns.map(() => '?').join(',')})`
  return {
    async seconds(total) {
      const client = await createConnection(server)
      try {
        await client.query(`DROP TABLE IF EXISTS ${table}`)
        await client.query(`CREATE TABLE ${table} (${shape})`)
        return await timed(
          total,
          (records) => records.flatMap(valuesOf),
          async (values) => {
            const rows = Array(values.length / columns.length).fill(row)
            await client.query('BEGIN')
            await client.execute(`INSERT INTO ${table} VALUES ${rows.join(',')}${clause}`, values)
            await client.query('COMMIT')
          },
        )
      } finally {
        await client.query(`DROP TABLE IF EXISTS ${table}`)
        await client.end()
      }
    },
  }
}

/** In the order of the columns. */
function valuesOf(text: string): string[] {
  const parsed: Record<string, unknown> = JSON.parse(text)
  return columns.map((name) => {
    const value = parsed[name]
    if (typeof value === 'boolean') return value ? '1' : '0'
    return typeof value === 'object' ? JSON.stringify(value) : String(value)
  })
}
