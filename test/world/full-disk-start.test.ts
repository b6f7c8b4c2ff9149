/** The start of a daemon whose disk is full: it starts on its ballast, and without one it waits. Needs root. */
import { existsSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { TestDaemon } from '../support/daemon.ts'
import { drained } from '../support/ledger.ts'
import { fillDisk, freeBytes, smallDisk } from '../support/small-disk.ts'
import { until } from '../support/until.ts'
import { openFullDiskWorld } from './full-disk-world.ts'
import { openSender } from './sender.ts'

const ingest = (daemon: TestDaemon, pipeId: string) => daemon.api('POST', `/v1/ingest/${pipeId}`, { n: -1 })

for (const end of ['stop', 'kill'] as const) {
  t.test(`ended by ${end}, then the disk is filled: it starts on its ballast and drains`, async (t) => {
    const { root, daemon, sink, pipeId, laneId, fill, ballast } = await openFullDiskWorld(t)
    sink.respondWith(() => ({ status: 503 }))
    const sender = openSender(daemon, pipeId, { fill: 'x'.repeat(1000) })
    // A start moves the WAL of a killed daemon and has its space: with many messages that is more than three ballasts.
    await sender.send(40)
    await daemon[end]()
    t.ok(existsSync(ballast))
    fillDisk(fill)
    t.equal(freeBytes(root), 0)

    await daemon.start()
    t.notOk(existsSync(ballast), 'the ballast is given up')
    t.equal((await ingest(daemon, pipeId)).status, 503)
    sink.respondWith(() => ({}))
    await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${laneId}/retry-now`)
    t.match(await drained(daemon, pipeId, laneId), { skipped_messages: 0, dropped_messages: 0 })

    t.equal(await daemon.stop(), 0)
    t.ok(statSync(ballast).size > 0, 'what room was left is held for the next start')
    fillDisk(fill)
    await daemon.start()
    rmSync(fill)
    await until('ingest is answered 202', async () => (await ingest(daemon, pipeId)).status === 202, {
      timeoutMs: 5_000,
    })
  })
}

t.test('a disk without any room: the start waits for it, and SIGTERM ends the wait', async (t) => {
  const { root, daemon, pipeId, fill, ballast } = await openFullDiskWorld(t)
  t.equal(await daemon.stop(), 0)
  rmSync(ballast)
  fillDisk(fill)
  t.equal(freeBytes(root), 0)
  const isWaiting = (since: number) =>
    until('it waits', () => daemon.log.slice(since).find(({ msg }) => msg === 'daemon.waiting_for_space'))

  const refused = t.rejects(daemon.start(), /ended with 0 before it was ready/)
  t.match(await isWaiting(0), { level: 'warn', free_bytes: 0 })
  t.equal(await daemon.stop(), 0)
  await refused

  const since = daemon.log.length
  const started = daemon.start()
  await isWaiting(since)
  rmSync(fill)
  await started
  t.equal((await ingest(daemon, pipeId)).status, 202)
  t.equal(
    daemon.log.slice(since).filter(({ msg }) => msg === 'daemon.waiting_for_space').length,
    1,
    'it was said once',
  )
  t.same(daemon.noise, [])
})

t.test('`serve --init` in a directory that cannot be made yet waits as well', async (t) => {
  const root = smallDisk(t)
  const fill = path.join(root, 'somebody-elses')
  fillDisk(fill)
  const daemon = new TestDaemon({ dataDir: path.join(root, 'data'), args: ['--init'] })
  t.teardown(() => daemon.close())
  const started = daemon.start()
  await until('it waits', () => daemon.log.find(({ msg }) => msg === 'daemon.waiting_for_space'))
  rmSync(fill)
  await started
  t.equal((await daemon.api('GET', '/v1/ready', undefined, { key: null })).status, 200)
})
