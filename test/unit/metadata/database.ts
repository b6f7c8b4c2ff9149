/**
 * Where a test keeps its metadata: a SQLite file of its own, or a database of its own on the server that `keepOn` was given
 * (`on-postgresql.test.ts` runs the same tests there). Also what a test does to it from outside, in the SQL of both.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import type { Test } from 'tap'
import type { MetadataSpec } from '../../../src/metadata/store.ts'
import type { TestPostgres } from '../../support/postgres.ts'

export interface TestDatabase {
  /** Empty, unless the test puts something there. */
  dir: string
  /** The file of SQLite; the name of a database on a server. */
  file: string
  spec: MetadataSpec
  /** Call it before the database is used. */
  ready(): Promise<void>
}

let server: TestPostgres | null = null
let databases = 0

/** From now on databases of tests are on this server. */
export function keepOn(given: TestPostgres): void {
  server = given
}

/** For `skip`: why a test does not run here. */
export function onlySqlite(reason: string): string | false {
  return server !== null && reason
}

export function testDatabase(t: Pick<Test, 'teardown'>): TestDatabase {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-metadata-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  const file = path.join(dir, 'metadata.db')
  if (server === null) return { dir, file, spec: { kind: 'sqlite', file }, ready: async () => {} }
  return { dir, file, ...serverDatabase(server) }
}

/** A database of its own; `ready` makes it. */
export function serverDatabase(on: TestPostgres): Pick<TestDatabase, 'spec' | 'ready'> {
  const name = `metadata_${++databases}`
  const url = `postgres://${on.user}:${on.password}@${on.host}:${on.port}/${name}`
  let made: Promise<unknown> | undefined
  return {
    spec: { kind: 'postgresql', url },
    async ready() {
      made ??= on.query(`CREATE DATABASE ${name}`)
      await made
    },
  }
}

/** Runs one statement from outside; `?` stands for a value. */
export async function rowsOf(
  { spec }: Pick<TestDatabase, 'spec'>,
  text: string,
  ...values: (string | number | null)[]
): Promise<Record<string, unknown>[]> {
  if (spec.kind === 'sqlite') {
    const database = new Database(spec.file)
    try {
      const statement = database.prepare(text)
      if (statement.reader) return statement.all(...values) as Record<string, unknown>[]
      statement.run(...values)
      return []
    } finally {
      database.close()
    }
  }
  // 64-bit integers as numbers, as SQLite gives them.
  const types = { getTypeParser: (oid: number) => ([20, 1700].includes(oid) ? Number : String) }
  const client = new pg.Client({ connectionString: spec.url, types })
  await client.connect()
  try {
    let count = 0
    return (
      await client.query(
        text.replaceAll('?', () => `$${++count}`),
        values,
      )
    ).rows
  } finally {
    await client.end()
  }
}

/** Rows cannot be inserted into the table until the returned function is called. */
export async function refuseRows(
  database: Pick<TestDatabase, 'spec'>,
  table: string,
  message: string,
): Promise<() => Promise<void>> {
  if (database.spec.kind === 'sqlite') {
    const raise = `SELECT RAISE(ABORT, '${message}')`
    await rowsOf(database, `CREATE TRIGGER refuse BEFORE INSERT ON ${table} BEGIN ${raise}; END`)
    return async () => void (await rowsOf(database, 'DROP TRIGGER refuse'))
  }
  const raise = `BEGIN RAISE EXCEPTION '${message}'; END`
  await rowsOf(database, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ ${raise} $$`)
  await rowsOf(
    database,
    `CREATE TRIGGER refuse BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION refuse()`,
  )
  return async () => void (await rowsOf(database, `DROP TRIGGER refuse ON ${table}`))
}

/** The names of its tables. */
export async function tablesOf(database: Pick<TestDatabase, 'spec'>): Promise<string[]> {
  const text =
    database.spec.kind === 'sqlite'
      ? "SELECT name FROM sqlite_master WHERE type = 'table'"
      : "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY oid"
  return (await rowsOf(database, text)).map((row) => String(row.name))
}
