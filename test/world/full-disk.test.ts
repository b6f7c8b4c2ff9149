/**
 * The daemon on a disk that somebody else has filled to the last byte: ingest says so and promises nothing, what was
 * promised is kept, lanes go on and their cursors move, /v1 answers, and all is well again once there is room.
 * Needs root: it mounts a RAM disk of its own.
 */
import { existsSync, rmSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { audit, drained, readAll } from '../support/ledger.ts'
import { fillDisk, freeBytes } from '../support/small-disk.ts'
import { until } from '../support/until.ts'
import { openFullDiskWorld } from './full-disk-world.ts'
import { balance, httpDestination, openSender } from './sender.ts'

const MiB = 1024 * 1024

async function openWorld(t: Test) {
  const world = await openFullDiskWorld(t)
  const pullId = await world.daemon.createDestination(world.pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  return { ...world, pullId }
}

/** One try at a time, until ingest is rejected; what was accepted before that counts. */
async function untilRefused(daemon: TestDaemon, pipeId: string, send: () => Promise<void>) {
  return await until(
    'ingest is refused',
    async () => {
      const answer = await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: -1, fill: 'x'.repeat(200_000) })
      if (answer.status === 503) return answer
      await send()
      return null
    },
    { timeoutMs: 60_000, everyMs: 1 },
  )
}

t.test('a full disk: 503, nothing lost, lanes go on, and it recovers by itself', async (t) => {
  const { root, fill, daemon, sink, pipeId, laneId, pullId } = await openWorld(t)
  const sender = openSender(daemon, pipeId, { fill: 'x'.repeat(1000) })
  const isWell = () => sink.respondWith(() => ({}))
  sink.respondWith(() => ({ status: 503 }))
  await sender.send(500)
  const before = await daemon.lane(pipeId, laneId)
  t.equal(before.pending_messages, 500, 'a backlog waits')

  fillDisk(fill)
  t.ok(freeBytes(root) < 64 * 1024, `${freeBytes(root)} bytes are free`)
  const refused = await untilRefused(daemon, pipeId, async () => {})
  t.match(refused, {
    status: 503,
    body: { error: 'buffer_unavailable', msg_id: /^[0-9a-f-]{36}$/ },
    headers: { 'retry-after': /^\d+$/ },
  })
  // Whatever the daemon has given up is taken too: it must live with what it keeps back for itself.
  const health = await daemon.api('GET', '/v1/health', undefined, { key: null })
  t.equal(health.status, 200)
  t.equal((await daemon.api('GET', '/v1/pipes')).status, 200, '/v1 answers')

  isWell()
  await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${laneId}/retry-now`)
  const moved = await drained(daemon, pipeId, laneId)
  t.ok(
    Number(moved.cursor_seq) > Number(before.cursor_seq),
    'the lane has delivered its backlog on a full disk',
  )
  t.equal((await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: -1 })).status, 503, 'the disk is still full')
  t.ok(freeBytes(root) < 3 * MiB, `${freeBytes(root)} bytes are free`)

  await daemon.kill()
  await daemon.start()
  const again = await daemon.lane(pipeId, laneId)
  t.equal(
    again.cursor_seq,
    moved.cursor_seq,
    'the cursor was saved on the full disk: a kill -9 does not undo it',
  )
  // The start may have given a few pages back: large messages use them up.
  const afterStart = await untilRefused(daemon, pipeId, async () => {})
  t.equal(afterStart.status, 503, 'it starts on a full disk')

  rmSync(fill)
  await until('ingest answers 202 again', async () => {
    return (await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: -1 })).status === 202
  })
  await sender.send(100)
  const lane = await drained(daemon, pipeId, laneId)
  t.match(lane, { skipped_messages: 0, dropped_messages: 0 })
  const all = await readAll(daemon, pullId)
  const inOrder = all.numbers.filter((n) => n >= 0)
  const arrived = sink
    .records()
    .map((record) => Number(record.n))
    .filter((n) => n >= 0)
  t.match(audit(sender, arrived, inOrder), { missing: [], outOfOrder: [], unknown: [] })
  t.ok(
    [...sender.messages].every((id) => all.messages.includes(id)),
    'every 202 is in the buffer',
  )
})

t.test(
  'a disk that another program fills to the last byte: lanes wait, and resume by themselves',
  async (t) => {
    const { root, fill, daemon, sink, pipeId, laneId, ballast } = await openWorld(t)
    const other = await startHttpSink()
    t.teardown(() => other.stop())
    const flush = { max_records: 10, max_bytes: 1_000_000, max_seconds: 0 }
    const otherId = await daemon.createDestination(pipeId, { ...httpDestination(other.url), flush })
    const sender = openSender(daemon, pipeId, { fill: 'x'.repeat(1000) })
    for (const one of [sink, other]) one.respondWith(() => ({ status: 503 }))
    await sender.send(500)
    fillDisk(fill)
    await untilRefused(daemon, pipeId, async () => {})
    await until('the room of the ballast is taken too', () => {
      fillDisk(fill)
      return !existsSync(ballast) && freeBytes(root) === 0
    })
    for (const one of [sink, other]) one.respondWith(() => ({}))
    await until('a lane cannot save its position', () => {
      fillDisk(fill)
      return daemon.log.some(({ msg }) => msg === 'lanes.save_delayed')
    })

    rmSync(fill)
    const lanes = [await drained(daemon, pipeId, laneId), await drained(daemon, pipeId, otherId)]
    for (const lane of lanes) t.match(lane, { skipped_messages: 0, dropped_messages: 0 })
    for (const one of [sink, other]) {
      const arrived = new Set(one.records().map(({ n }) => Number(n)))
      t.same(
        [...sender.accepted].filter((n) => !arrived.has(n)),
        [],
      )
    }
    await until('ingest responds 202 again', async () => {
      return (await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: -1 })).status === 202
    })
  },
)

t.test('SIGTERM on a full disk: it ends in time with a documented code, and nothing is lost', async (t) => {
  const { fill, daemon, sink, pipeId, laneId } = await openWorld(t)
  const sender = openSender(daemon, pipeId, { fill: 'x'.repeat(1000) })
  sink.respondWith(() => ({ status: 503 }))
  await sender.send(200)
  fillDisk(fill)
  await untilRefused(daemon, pipeId, async () => {})
  // The space that is reserved for lanes and counts on a full disk is used up as well.
  fillDisk(fill)

  const code = await daemon.stop()
  t.ok(code === 0 || code === 70, `ended with ${code}`)
  const stopped = daemon.log.find(({ msg }) => msg === 'daemon.stopped')
  const failedSteps = Array.isArray(stopped?.failed_steps) ? stopped.failed_steps : null
  t.equal(failedSteps?.length === 0, code === 0, 'the code says whether a step failed')
  t.notOk(failedSteps?.includes('close buffer'))

  rmSync(fill)
  sink.respondWith(() => ({}))
  await daemon.start()
  await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${laneId}/retry-now`)
  const lane = await drained(daemon, pipeId, laneId)
  t.match(lane, { skipped_messages: 0, dropped_messages: 0 })
  const arrived = new Set(sink.records().map(({ n }) => Number(n)))
  t.same(
    [...sender.accepted].filter((n) => !arrived.has(n)),
    [],
  )
})

t.test('the recovery is announced and quick', async (t) => {
  const { fill, daemon, pipeId } = await openWorld(t)
  fillDisk(fill)
  await untilRefused(daemon, pipeId, async () => {})
  const since = daemon.log.length
  rmSync(fill)
  const accepting = await until('the log says that it accepts', () =>
    daemon.log.slice(since).find(({ msg }) => msg === 'buffer.accepting'),
  )
  t.ok(accepting)
  // The writer's log line may come before main knows.
  await until('ingest answers 202', async () => {
    return (await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: 1 })).status === 202
  })
  t.ok(
    daemon.log.some(({ msg, level }) => msg === 'buffer.rejecting' && level === 'warn'),
    'and had said that it refuses',
  )
})

t.test(
  'negative control: the same requests on the same disk, not filled, are all answered 202',
  async (t) => {
    const { root, daemon, pipeId, laneId } = await openWorld(t)
    const sender = openSender(daemon, pipeId, { fill: 'x'.repeat(1000) })
    await sender.send(300)
    t.ok(freeBytes(root) > 30 * MiB)
    const answer = await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: -1, fill: 'x'.repeat(200_000) })
    t.equal(answer.status, 202)
    const lane = await drained(daemon, pipeId, laneId)
    t.not(
      balance(lane, sender).accounted,
      sender.accepted.size,
      'the books show the one record that was not ours',
    )
  },
)
