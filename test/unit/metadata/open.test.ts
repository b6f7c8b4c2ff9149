/** Opening: an empty file, an old one, one of a newer version, one sealed with another key, two processes at once. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { assertFullSync, openSqliteFile } from '../../../src/metadata/sqlite/file.ts'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { childFlags } from '../../support/child-flags.ts'
import {
  databaseDestination,
  newPipe,
  newWorkspace,
  open,
  openFile,
  type TestFile,
  testFile,
} from './fixture.ts'

async function refusal(t: Test, options: TestFile): Promise<string> {
  const error: unknown = await openFile(options).then(
    (metadata) => metadata.close(),
    (reason: unknown) => reason,
  )
  t.ok(error instanceof ConfigError, String(error))
  const message = error instanceof Error ? error.message : ''
  t.notMatch(message, /\n/, 'one line')
  return message
}

const at = (options: TestFile, file: string): TestFile => ({
  ...options,
  file,
  spec: { kind: 'sqlite', file },
})

/** Every table's text and rows, but for the time of the last opening. */
function contentOf(file: string): unknown {
  const database = new Database(file, { readonly: true })
  try {
    const tables = database
      .prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name")
      .all()
    return tables.map((table) => {
      const { name } = table as { name: string }
      const rows = database.prepare(`SELECT * FROM "${name}"`).all()
      return {
        table,
        rows: rows.filter((row) => !String((row as { name?: string }).name).startsWith('last_opened_')),
      }
    })
  } finally {
    database.close()
  }
}

t.test('a new file gets its tables, WAL, and mode 0600 also for the write-ahead log', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  await newWorkspace(metadata, 'default')
  t.equal(statSync(options.file).mode & 0o777, 0o600)
  t.equal(statSync(`${options.file}-wal`).mode & 0o777, 0o600)
  const database = new Database(options.file, { readonly: true })
  t.equal(database.pragma('journal_mode', { simple: true }), 'wal')
  t.strictSame(database.pragma('foreign_key_check'), [])
  database.close()
})

t.test('opening again changes nothing and finds everything', async (t) => {
  const options = testFile(t)
  const first = await openFile(options)
  const workspaceId = await newWorkspace(first, 'default')
  const pipe = await newPipe(first, workspaceId, 'events')
  const destination = await first.destinations.create(
    { workspaceId, pipeId: pipe.pipe_id },
    databaseDestination(),
  )
  await first.close()
  const before = contentOf(options.file)
  const second = await openFile(options)
  t.strictSame(await second.pipes.list(workspaceId), [pipe])
  t.strictSame(await second.destinations.list({ workspaceId, pipeId: pipe.pipe_id }), [destination])
  await second.close()
  t.strictSame(contentOf(options.file), before)
})

t.test('a file sealed with another key is rejected and stays as it was', async (t) => {
  const options = testFile(t)
  const metadata = await openFile(options)
  await newWorkspace(metadata, 'default')
  await metadata.close()
  const before = readFileSync(options.file)
  t.match(
    await refusal(t, { ...options, sealingKey: randomBytes(32) }),
    /^sealing key: it did not encrypt the secrets of .*metadata\.db; put back the right key/,
  )
  t.ok(before.equals(readFileSync(options.file)), 'not a byte changed')
  const again = await open(t, options)
  t.equal((await again.workspaces.list()).length, 1)
})

t.test('a file of a newer version is rejected and stays as it was', async (t) => {
  const options = testFile(t)
  await (await openFile(options)).close()
  const database = new Database(options.file)
  database.prepare('INSERT INTO metadata_migrations VALUES (99, ?, 0)').run('from the future')
  database.close()
  const before = contentOf(options.file)
  t.match(
    await refusal(t, options),
    /was written by a newer pipectl \(format 99, this version supports \d+\)/,
  )
  t.strictSame(contentOf(options.file), before)
})

t.test('what is no metadata file or cannot be opened is a configuration error', async (t) => {
  const options = testFile(t)
  writeFileSync(
    options.file,
    'this is a text file, long enough to be looked at as a database header by SQLite'.repeat(20),
  )
  t.match(await refusal(t, options), /is not a pipectl metadata file/)
  t.match(await refusal(t, at(options, options.dir)), /cannot be opened for writing \(EISDIR\)/)
  const nowhere = path.join(options.dir, 'nowhere', 'metadata.db')
  t.match(await refusal(t, at(options, nowhere)), /cannot be opened for writing \(ENOENT\)/)
})

t.test('several processes may open a new file at once: one makes the tables, all work', async (t) => {
  const options = testFile(t)
  const names = ['one', 'two', 'three', 'four']
  const codes = await Promise.all(names.map((name) => createInChild(options, name)))
  t.strictSame(codes, [0, 0, 0, 0])
  const metadata = await open(t, options)
  t.strictSame(
    (await metadata.workspaces.list()).map((workspace) => workspace.name).sort(),
    [...names].sort(),
  )
})

async function createInChild(options: TestFile, name: string): Promise<unknown> {
  const script = new URL('./workspace-child.ts', import.meta.url).pathname
  const child = spawn(
    process.execPath,
    [...childFlags, script, JSON.stringify(options.spec), options.sealingKey.toString('hex'), name],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const [code] = await once(child, 'exit')
  return code
}

t.test('connections of one thread may write at the same time', async (t) => {
  const options = testFile(t)
  const first = await open(t, options)
  const second = await open(t, options)
  const workspaceId = await newWorkspace(first, 'default')
  const names = Array.from({ length: 40 }, (_, index) => `pipe-${index}`)
  await Promise.all(names.map((name, index) => newPipe(index % 2 ? first : second, workspaceId, name)))
  t.strictSame((await first.pipes.list(workspaceId)).map((pipe) => pipe.pipe_name).sort(), [...names].sort())
})

t.test('a change under way when the file is closed is finished', async (t) => {
  const options = testFile(t)
  const metadata = await openFile(options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const creating = newPipe(metadata, workspaceId, 'last')
  await metadata.close()
  await creating
  const again = await open(t, options)
  t.equal((await again.pipes.list(workspaceId)).length, 1)
})

t.test('a connection that would not sync its commits is found out after its first write', async (t) => {
  const { file } = testFile(t)
  const database = await openSqliteFile(file)
  t.teardown(() => database.close())
  database.exec('CREATE TABLE things (id integer); INSERT INTO things VALUES (1)')
  assertFullSync(database)
  database.pragma('synchronous = NORMAL')
  t.throws(() => assertFullSync(database), /synchronous is 1, not FULL/)
})
