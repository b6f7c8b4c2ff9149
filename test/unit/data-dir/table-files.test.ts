/**
 * Files of SQLite destinations in backup, restore, verify and doctor: nothing that a lane delivered is missing in the restored file,
 * and with `exactly_once` nothing is in it twice, although the file in a backup is newer than the positions of the lanes.
 */
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import Database from 'better-sqlite3'
import t from 'tap'
import { createTableDirectory, tableFilePath, tablesDirOf } from '../../../src/destinations/sqlite/files.ts'
import { entryHeader, padding, readArchive } from '../../../src/maintenance/archive.ts'
import { cliEnv, runCli } from '../../support/cli.ts'
import { startDaemon, type TestDaemon } from '../../support/daemon.ts'
import { until } from '../../support/until.ts'

const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-table-files-'))
t.teardown(() => rmSync(home, { recursive: true, force: true }))
const env = { HOME: home, PATH: process.env.PATH ?? '' }
const records = 10

function fileIn(dataDir: string): string {
  const [workspaceId = ''] = readdirSync(tablesDirOf(dataDir))
  return tableFilePath(tablesDirOf(dataDir), workspaceId, 'orders')
}

function rowsIn(dataDir: string): number[] {
  const database = new Database(fileIn(dataDir), { readonly: true })
  try {
    return database.prepare<[], number>('SELECT n FROM orders ORDER BY n').pluck().all()
  } finally {
    database.close()
  }
}

/** A daemon whose lane is blocked with messages, and a copy of its metadata of then. Then the lane delivers them. */
async function deliveredAfterCopy(
  exactlyOnce: boolean,
): Promise<{ daemon: TestDaemon; pipeId: string; lane: string }> {
  const daemon = await startDaemon()
  const cli = (...args: string[]) => runCli(args, { env: cliEnv(daemon, home) })
  const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
  await daemon.ingest(pipeId, { n: 0 })
  const create = await cli(
    ...['destinations', 'create', 'orders', '--type', 'sqlite', '--infer', '--create-table', '--no-dedupe'],
    ...['--set', `exactly_once=${exactlyOnce}`],
  )
  t.equal(create.code, 0, create.stderr)
  const { body } = await daemon.api('GET', `/v1/pipes/${pipeId}`)
  const lane = String(Object(body.destinations)[0].destination_id)
  const setStatus = (destination_status: string) =>
    daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${lane}/status`, { destination_status })
  const isIdle = async () => (await daemon.lane(pipeId, lane)).pending_messages === 0
  await until('the first record is delivered', isIdle)
  await setStatus('blocked')
  for (let n = 1; n < records; n += 1) await daemon.ingest(pipeId, { n })
  await daemon.stop()
  const metadata = path.join(daemon.dataDir, 'metadata.db')
  const older = path.join(home, `older-${lane}.db`)
  copyFileSync(metadata, older)
  await daemon.start()
  await setStatus('active')
  await until('all are delivered', isIdle)
  await daemon.stop()
  t.same(rowsIn(daemon.dataDir).length, records)
  // As in a backup whose metadata was copied before the lane delivered, and its table files afterwards.
  for (const end of ['-wal', '-shm']) rmSync(`${metadata}${end}`, { force: true })
  copyFileSync(older, metadata)
  return { daemon, pipeId, lane }
}

for (const exactlyOnce of [true, false]) {
  t.test(`a restored lane continues where its file ends, exactly_once ${exactlyOnce}`, async (t) => {
    const { daemon, pipeId, lane } = await deliveredAfterCopy(exactlyOnce)
    t.teardown(() => daemon.close())
    const archive = path.join(home, `${lane}.tar.gz`)
    const made = await runCli(['backup', archive, '--data-dir', daemon.dataDir, '--include-key'], { env })
    t.equal(made.code, 0, made.stderr)
    const dataDir = path.join(home, `restored-${lane}`)
    const restored = await runCli(['restore', archive, '--data-dir', dataDir], { env })
    t.equal(restored.code, 0, restored.stderr)
    t.strictSame(readdirSync(path.dirname(fileIn(dataDir))), ['orders.sqlite'], 'one file, without a WAL')
    const verified = await runCli(['verify', '--data-dir', dataDir, '--json'], { env })
    t.equal(verified.code, 0, verified.stderr)
    t.match(verified.stdout, /"file":"tables\/[^"]+\/orders\.sqlite","result":"ok"/)

    const second = await startDaemon({ dataDir })
    t.teardown(() => second.close())
    second.apiKey = daemon.apiKey
    await second.api('PATCH', `/v1/pipes/${pipeId}/destinations/${lane}/status`, {
      destination_status: 'active',
    })
    await second.ingest(pipeId, { n: records })
    await until('all are delivered', async () => (await second.lane(pipeId, lane)).pending_messages === 0)
    const rows = rowsIn(dataDir)
    const each = Array.from({ length: records + 1 }, (_, n) => n)
    if (exactlyOnce) t.same(rows, each, 'each record once')
    else {
      t.same([...new Set(rows)], each, 'no record is missing')
      t.ok(rows.length > each.length, 'control: without it, what came in between is there twice')
    }
  })
}

t.test('a damaged file is reported by verify and doctor, and fails a backup', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const workspaceId = '11111111-1111-4111-8111-111111111111'
  const file = tableFilePath(tablesDirOf(daemon.dataDir), workspaceId, 'x'.repeat(64))
  createTableDirectory(file)
  new Database(file).exec('CREATE TABLE t (a); INSERT INTO t VALUES (1)').close()
  const command = (...args: string[]) => runCli([...args, '--data-dir', daemon.dataDir], { env })
  const archive = path.join(home, 'long.tar.gz')
  const made = await command('backup', archive)
  t.equal(made.code, 0, `a name of more than 100 bytes: ${made.stderr}`)
  const target = path.join(home, 'restored-long')
  t.equal((await runCli(['restore', archive, '--data-dir', target], { env })).code, 0)
  t.match((await command('doctor')).stdout, /table files +ok +1 file, .*no destination uses tables/)
  writeFileSync(file, Buffer.alloc(8_192, 7))
  const verified = await command('verify')
  t.equal(verified.code, 1)
  t.match(verified.stderr, /restored from a backup/)
  t.match(verified.stdout, /x\.sqlite +damaged +file is not a database/)
  t.match((await command('doctor')).stdout, /table files +fail/)
  const failed = await command('backup', path.join(home, 'damaged.tar.gz'))
  t.equal(failed.code, 1)
  t.match(failed.stderr, /x\.sqlite cannot be copied: file is not a database/)
})

t.test('a long name is divided at a slash and read back', async (t) => {
  const name = `tables/11111111-1111-4111-8111-111111111111/${'y'.repeat(64)}.sqlite`
  const header = entryHeader({ name, size: 1, mode: 0o600 }, 0)
  const blocks = [header, Buffer.from('z'), padding(1), Buffer.alloc(1_024)]
  const names: string[] = []
  for await (const one of readArchive(Readable.from(blocks))) {
    names.push(one.name)
    for await (const _ of one.content);
  }
  t.strictSame(names, [name])
  t.throws(() => entryHeader({ name: 'y'.repeat(101), size: 1, mode: 0o600 }, 0), /too long/)
})
