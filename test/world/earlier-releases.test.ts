/**
 * The upgrade from each earlier release, as docs/upgrading.md describes it. Data of a release whose format this version opens is
 * a fixture of earlier-formats.test.ts. 0.2.0 is older: its data is not opened and not touched, and what `pipectl export` of
 * it has written is applied. Its directory was made by 0.2.0 itself: test/support/fixtures/README.md.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { newestFormat, oldestFormat } from '../../src/metadata/migrations.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'
import { contentOf } from '../support/directory-content.ts'
import { copyOf, makeBase, refusesToStart } from './damaged-directory.ts'

const project = new URL('../../', import.meta.url).pathname
const fixtures = path.join(project, 'test/support/fixtures')

interface Release {
  version: string
  data_formats: { metadata: number; log: number }
}
const { releases }: { releases: Release[] } = JSON.parse(
  readFileSync(path.join(project, 'vendor/release/releases.json'), 'utf8'),
)

/** What 0.2.0 left: `data` and `workspace.yaml`. */
function unpacked(t: Test): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-release-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  execFileSync('tar', ['-xzf', path.join(fixtures, 'release-0.2.0.tar.gz'), '-C', folder])
  return folder
}

t.test('each release whose data this version opens has a data directory in the tests', async (t) => {
  const changelog = readFileSync(path.join(project, 'CHANGELOG.md'), 'utf8')
  const released = [...changelog.matchAll(/^## \[(\d[^\]]*)\] - (\S+)$/gm)].map(([, version]) => version)
  t.same(
    releases.map(({ version }) => version),
    released.filter((version) => releases.some((one) => one.version === version)),
    'vendor/release/releases.json has them in the order of the changelog',
  )
  const newest = releases[0]?.version
  t.ok(released.slice(0, 2).includes(newest), 'only a release that is being made is missing there')
  for (const { version, data_formats: formats } of releases)
    if (formats.metadata >= oldestFormat)
      t.ok(existsSync(path.join(fixtures, `format-${formats.metadata}.tar.gz`)), version)
})

t.test('data of 0.2.0 is not opened, and not changed', async (t) => {
  const dataDir = path.join(unpacked(t), 'data')
  const before = contentOf(dataDir)
  const check = await runCli(['version', '--check-data-dir', '--data-dir', dataDir, '-o', 'json'])
  t.equal(check.code, 1)
  t.match(JSON.parse(check.stdout).data_dir, { result: 'older', metadata_format: 20, log_format: 2 })
  await refusesToStart(t, dataDir, 78, [
    /was written by an earlier pipectl \(format 20, this version supports 25 and newer\)/,
  ])
  const { [path.join(dataDir, 'daemon.lock')]: _, ...after } = contentOf(dataDir)
  t.same(after, before)
})

t.test('what 0.2.0 has exported is applied, and nothing of it is lost', async (t) => {
  const file = path.join(unpacked(t), 'workspace.yaml')
  const daemon = await startDaemon()
  const home = makeHome()
  t.teardown(async () => {
    await daemon.close()
    removeHome(home)
  })
  const secrets = [
    'ORDERS_TABLE_PASSWORD',
    'ORDERS_SHOP_AUTH_HEADER',
    'ORDERS_BUCKET_SECRET_KEY',
    'ORDERS_MYSQL_PASSWORD',
  ]
  const env = {
    ...cliEnv(daemon, home),
    ...Object.fromEntries(secrets.map((name) => [name, `secret of ${name}`])),
  }
  const apply = await runCli(['apply', '-f', file], { env })
  t.equal(apply.code, 0, apply.stderr)
  const again = await runCli(['diff', '-f', file], { env })
  t.equal(again.code, 0, `a second time nothing is left to do: ${again.stdout}`)

  const { stdout } = await runCli(['export'], { env })
  const lines = (text: string) =>
    text.split('\n').filter((line) => /^\s+- destination_name|pipe_name|^\s+- https/.test(line))
  t.same(lines(stdout).sort(), lines(readFileSync(file, 'utf8')).sort())
  t.equal(lines(stdout).length, 9, 'two pipes, six destinations, one origin')

  const list = await daemon.api<{ pipes: { pipe_id: string; pipe_name: string }[] }>('GET', '/v1/pipes')
  const orders = list.body.pipes.find(({ pipe_name: name }) => name === 'orders')?.pipe_id ?? ''
  await daemon.ingest(orders, '[{"id":1,"name":"after the upgrade"}]')
  const pulled = await runCli(['pull', 'orders', '--once'], { env })
  t.match(JSON.parse(pulled.stdout), { id: 1, name: 'after the upgrade' })
})

t.test('a downgrade is refused in one line, and changes nothing', async (t) => {
  const { dataDir } = copyOf(t, await makeBase(t), 'stopped')
  const later = newestFormat + 1
  const database = new Database(path.join(dataDir, 'metadata.db'))
  database.exec(
    `INSERT INTO metadata_migrations (number, name, applied_ms) VALUES (${later}, 'of the next version', 0)`,
  )
  database.close()
  const before = contentOf(dataDir)
  await refusesToStart(t, dataDir, 78, [
    new RegExp(`was written by a newer pipectl \\(format ${later}, this version supports ${newestFormat}\\)`),
    /install that version or restore a backup/,
  ])
  t.same(contentOf(dataDir), before)
})
