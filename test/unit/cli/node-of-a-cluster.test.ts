/** Commands for the files of a data directory, given the settings of a node: they say what to use instead, and no password. */
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { runCli } from '../../support/cli.ts'
import { copyFreshDataDir } from '../../support/daemon.ts'

const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-node-'))
t.teardown(() => rmSync(root, { recursive: true }))
const env = {
  PIPECTL_METADATA_URL: 'postgres://me:s3cret@127.0.0.1:1/db',
  PIPECTL_BUFFER_NATS: 'nats://me:s3cret@127.0.0.1:1',
}

for (const [command, instead] of [
  [['backup', path.join(root, 'x.tar.gz')], /pg_dump\), then the stream \(nats stream backup\)/],
  [['restore', path.join(root, 'x.tar.gz')], /restore the database and the stream/],
  [['verify'], /pipectl doctor/],
  [['repair', '--yes'], /nats-server rebuilds/],
] as const) {
  t.test(`${command[0]} says what a cluster has instead`, async (t) => {
    const { code, stdout, stderr } = await runCli([...command, '--data-dir', path.join(root, 'node')], {
      env,
    })
    t.equal(code, 5)
    t.equal(stdout, '')
    t.match(stderr, /a node of the cluster pipectl/)
    t.match(stderr, instead)
    t.notMatch(stderr, /s3cret/)
  })
}

t.test('a single machine’s directory that is named beside them is worked on', async (t) => {
  const dataDir = path.join(root, 'single')
  await copyFreshDataDir(dataDir)
  t.equal((await runCli(['backup', path.join(root, 'y.tar.gz'), '--data-dir', dataDir], { env })).code, 0)
})

t.test('migrate says where to it moves, and what is not there', async (t) => {
  const neither = await runCli(['migrate', '--data-dir', root], { env })
  t.match(neither, { code: 2, stderr: /add --to-cluster/ })
  const nothing = await runCli(['migrate', '--to-cluster', '--data-dir', path.join(root, 'none')], { env })
  t.match(nothing, { code: 3, stderr: /has no metadata\.db/ })
  const single = path.join(root, 'single')
  const alone = await runCli(['migrate', '--to-cluster', '--data-dir', single])
  t.match(alone, { code: 78, stderr: /metadata\.url and buffer\.nats are not set/ })
  const away = await runCli(['migrate', '--to-cluster', '--data-dir', single], { env })
  t.not(away.code, 0)
  t.notMatch(away.stderr, /s3cret/)
})
