/** A rotated sealing key: nothing is written under the old prefix, and another prefix begins a new replica. */
import { rmSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { spawnCli } from '../support/cli.ts'
import { makeDataDir, TestDaemon } from '../support/daemon.ts'
import { readAll } from '../support/ledger.ts'
import { replicated } from '../support/replica.ts'
import { openReplicaWorld, type ReplicaWorld } from '../support/replica-world.ts'
import { until } from '../support/until.ts'

type Tap = Parameters<typeof openReplicaWorld>[0]

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

/** The numbers in a restored copy, whose daemon has no replica. */
async function numbersIn(
  t: Tap,
  { env, daemon, pullId }: ReplicaWorld,
  from: { url: string; keyFile: string },
): Promise<number[]> {
  const dataDir = makeDataDir()
  t.teardown(() => rmSync(path.dirname(dataDir), { recursive: true, force: true }))
  const args = ['restore', '--from', from.url, '--key-file', from.keyFile, '--data-dir', dataDir]
  const { code, stderr } = await spawnCli(args, { env })
  if (code !== 0) throw new Error(stderr)
  const copy = new TestDaemon({ dataDir })
  copy.apiKey = daemon.apiKey
  await copy.start()
  t.teardown(() => copy.close())
  return (await readAll(copy, pullId)).numbers
}

t.test('a rotated key needs another prefix', async (t) => {
  const world = await openReplicaWorld(t)
  const { daemon, server, env, send, keyFile } = world
  await send(20)
  await replicated(daemon)
  await daemon.stop()
  const rotated = await spawnCli(['secrets', 'rotate-key', '--data-dir', daemon.dataDir], { env })
  t.match(rotated, { code: 0, stderr: /set replica.url to another prefix/ })
  const before = new Map([...server.objects].filter(([name]) => !name.includes('/probe/')))
  await daemon.start()
  await until('it says why', () =>
    daemon.log.some(
      ({ msg, err }) => msg === 'replica.failing' && JSON.stringify(err).includes('another sealing key'),
    ),
  )
  const { body } = await daemon.api('GET', '/v1/overview')
  t.match(body, { service: { replica: { replica_state: 'joining', error_code: 'another_key' } } })
  await send(5)
  const { stdout } = await spawnCli(['doctor', '--data-dir', daemon.dataDir, '-o', 'json'], { env })
  const check = JSON.parse(stdout).checks.find(({ name }: { name: string }) => name === 'replica')
  t.match(check, { result: 'fail', detail: /another sealing key/, next: /Rotate the sealing key/ })
  await daemon.stop()
  const after = new Map([...server.objects].filter(([name]) => !name.includes('/probe/')))
  t.same([...after.keys()], [...before.keys()], 'the old prefix is as it was')
  const old = { url: env.PIPECTL_REPLICA_URL!, keyFile }
  const url = `${old.url}-2`
  const next = new TestDaemon({ dataDir: daemon.dataDir, env: { ...env, PIPECTL_REPLICA_URL: url } })
  next.apiKey = daemon.apiKey
  t.teardown(() => next.close())
  await next.start()
  await until('a snapshot is stored', () => next.log.some(({ msg }) => msg === 'replica.snapshot_stored'))
  await replicated(next)
  await next.stop()
  t.same(await numbersIn(t, world, { url, keyFile: path.join(daemon.dataDir, 'sealing.key') }), upTo(25))
  t.same(await numbersIn(t, world, old), upTo(20), 'the old one is restored with the old key')
})
