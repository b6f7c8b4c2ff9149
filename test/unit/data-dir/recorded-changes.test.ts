/** Commands on a data directory whose changed rows are recorded for a replica: they work, and what they change is recorded. */
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { newestFormat } from '../../../src/metadata/migrations.ts'
import { applyRowChanges } from '../../../src/metadata/sqlite/apply-row-changes.ts'
import { requireIntactMetadata } from '../../../src/metadata/sqlite/check.ts'
import { recordingIdOf, recordRowChanges } from '../../../src/metadata/sqlite/row-change-triggers.ts'
import { openRowChanges } from '../../../src/metadata/sqlite/row-changes.ts'
import { keepCopy } from '../../../src/metadata/sqlite/upgrade-copy.ts'
import { cliEnv, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { contentOfFile, differing, sameTables } from '../metadata/compared-tables.ts'

const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-recorded-'))
t.teardown(() => rmSync(home, { recursive: true, force: true }))
const daemon = await startDaemon()
t.teardown(() => daemon.stop())
const file = path.join(daemon.dataDir, 'metadata.db')
const copyFile = path.join(home, 'copy.db')
// The default ports can be those of another daemon on this host.
const ports = { PIPECTL_LISTEN: '127.0.0.1:0', PIPECTL_METRICS_LISTEN: 'off' }
const offline = { PATH: process.env.PATH ?? '', HOME: home, PIPECTL_DATA_DIR: daemon.dataDir, ...ports }

function withDatabase<T>(name: string, run: (db: Database.Database) => T): T {
  const db = new Database(name)
  try {
    return run(db)
  } finally {
    db.close()
  }
}

/** Applies what is recorded. Returns the number of rows. */
function ship(): number {
  const changes = openRowChanges(file)
  try {
    let count = 0
    for (let taken = changes.take(1 << 30); taken !== null; taken = changes.take(1 << 30)) {
      withDatabase(copyFile, (copy) => applyRowChanges(copy, taken!.rows))
      changes.release(taken.through)
      count += taken.count
    }
    return count
  } finally {
    changes.close()
  }
}

async function pipectl(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(args, { env: offline })
  t.equal(code, 0, `${args.join(' ')}: ${stderr}`)
  return stdout
}

t.test('a daemon that runs while the recording begins continues, and its changes are recorded', async (t) => {
  await daemon.createPipe({ pipe_name: 'before' })
  const id = withDatabase(file, (db) => recordRowChanges(db))
  const changes = openRowChanges(file)
  t.equal(changes.recordingId, id)
  await changes.copyTo(copyFile)
  changes.close()
  const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
  const set = ['--type', 'sqlite', '--infer', '--create-table', '--no-dedupe']
  await daemon.ingest(pipeId, { n: 0 })
  const created = await runCli(['destinations', 'create', 'orders', ...set], { env: cliEnv(daemon, home) })
  t.equal(created.code, 0, created.stderr)
  await daemon.api('DELETE', `/v1/pipes/${await daemon.createPipe({ pipe_name: 'gone' })}`)
  await daemon.stop()
  t.ok(ship() > 10)
  sameTables(t, copyFile, file, 'also what the threads have saved at the end')
})

t.test('doctor, verify, backup and the commands that change metadata', async (t) => {
  requireIntactMetadata(file)
  await pipectl('verify')
  await pipectl('doctor')
  t.equal(ship(), 0, 'they change nothing')
  for (const command of [
    ['workspaces', 'create', 'second'],
    ['secrets', 'rotate-key'],
  ]) {
    await pipectl(...command)
    t.ok(ship() > 0, command.join(' '))
    sameTables(t, copyFile, file, command.join(' '))
  }
})

t.test('a restored backup is not recorded, so that a new copy of it is made', async (t) => {
  const [archive, restored] = [path.join(home, 'backup.tar.gz'), path.join(home, 'restored')]
  await pipectl('backup', archive)
  await pipectl('restore', archive, '--data-dir', restored)
  const restoredFile = path.join(restored, 'metadata.db')
  t.equal(withDatabase(restoredFile, recordingIdOf), null)
  t.not(withDatabase(file, recordingIdOf), null)
  const changed = differing(contentOfFile(restoredFile), contentOfFile(file))
  t.same(
    changed.filter((table) => !/^(metadata_settings|audit_log|sessions|setup_tokens)$/.test(table)),
    [],
  )
})

t.test(
  'an upgrade ends the recording before it changes tables; the copy that it keeps has none',
  async (t) => {
    const kept = withDatabase(file, (db) => {
      t.not(recordingIdOf(db), null)
      return keepCopy(db, newestFormat + 1, Date.now())
    })
    t.equal(withDatabase(file, recordingIdOf), null)
    t.equal(withDatabase(kept!, recordingIdOf), null)
  },
)
