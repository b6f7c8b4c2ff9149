/** `pipectl version`, and what it says of a data directory that it does not open. The others: world/earlier-formats.test.ts. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { runCli } from '../../support/cli.ts'
import { copyFreshDataDir, makeDataDir } from '../../support/daemon.ts'

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'))

t.test('without --check-data-dir it looks at nothing', async (t) => {
  const { code, stdout } = await runCli(['version', '-o', 'json'])
  t.equal(code, 0)
  t.match(JSON.parse(stdout), {
    version,
    node_version: process.version,
    metadata_format: Number,
    data_dir: null,
  })
  t.equal((await runCli(['version', '-o', 'name'])).stdout, `${version}\n`)
})

t.test('a data directory that this version has written', async (t) => {
  const dataDir = makeDataDir()
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  await copyFreshDataDir(dataDir)
  const check = () => runCli(['version', '--check-data-dir', '--data-dir', dataDir, '-o', 'json'])
  const current = await check()
  t.equal(current.code, 0, current.stderr)
  t.match(JSON.parse(current.stdout).data_dir, {
    ...{ place: dataDir, result: 'current', last_opened_by: version, migrations: [] },
    ...{ copy_bytes: null, problem: null },
  })

  const file = path.join(dataDir, 'metadata.db')
  const database = new Database(file)
  database.exec("INSERT INTO metadata_migrations (number, name, applied_ms) VALUES (999, 'of the future', 0)")
  database.close()
  const newer = await check()
  t.equal(newer.code, 1)
  t.match(JSON.parse(newer.stdout).data_dir, { result: 'newer', metadata_format: 999 })
  t.match(newer.stderr, /was written by a newer pipectl[\s\S]*next: install that version/)

  writeFileSync(file, 'not a database, and too short for one')
  const unreadable = await check()
  t.equal(unreadable.code, 1)
  t.match(JSON.parse(unreadable.stdout).data_dir, {
    result: 'unreadable',
    problem: /metadata\.db: file is not a database/,
  })
})

t.test('a directory without anything', async (t) => {
  const dataDir = path.join(makeDataDir(), 'nothing')
  const { code, stdout, stderr } = await runCli([
    'version',
    '--check-data-dir',
    '--data-dir',
    dataDir,
    '-o',
    'json',
  ])
  t.equal(code, 3)
  t.equal(JSON.parse(stdout).data_dir.result, 'not_set_up')
  t.match(stderr, /nothing is set up in/)
})
