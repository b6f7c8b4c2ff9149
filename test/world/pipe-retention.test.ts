/**
 * docs/dev/contract.md#buffer-and-retention: a pipe that keeps its messages for an hour, beside one with the limits of the
 * daemon. The clock of the buffer is moved while the daemon is stopped.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { moveBufferClock } from '../support/buffer-clock.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { drained } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { balance, httpDestination, openSender, type Sender } from './sender.ts'

const minuteMs = 60_000

interface World {
  daemon: TestDaemon
  pipeId: string
  openId: string
  blockedId: string
  sender: Sender
}

async function openPipe(daemon: TestDaemon, url: string, name: string, hours: number | null) {
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_retention_hours: hours })
  const openId = await daemon.createDestination(pipeId, httpDestination(url))
  const blockedId = await daemon.createDestination(pipeId, httpDestination(url))
  const status = `/v1/pipes/${pipeId}/destinations/${blockedId}/status`
  await daemon.api('PATCH', status, { destination_status: 'blocked' })
  return { daemon, pipeId, openId, blockedId, sender: openSender(daemon, pipeId, { fill: `${name}-text` }) }
}

async function openWorld(t: Test): Promise<{ daemon: TestDaemon; short: World; long: World }> {
  const daemon = await startDaemon({ env: { PIPECTL_BUFFER_SEGMENT_MAX_SECONDS: '1' } })
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const short = await openPipe(daemon, sink.url, 'short', 1)
  const long = await openPipe(daemon, sink.url, 'long', null)
  for (let round = 0; round < 3; round += 1) {
    for (const { sender } of [short, long]) await sender.send(5)
    const before = await segments(daemon)
    await until('the segment is sealed', async () => {
      await long.sender.send(1)
      return (await segments(daemon)) > before
    })
  }
  for (const { pipeId, openId } of [short, long]) await drained(daemon, pipeId, openId)
  return { daemon, short, long }
}

async function segments(daemon: TestDaemon): Promise<number> {
  const text = await (await fetch(daemon.metricsUrl)).text()
  return Number(/^pipectl_buffer_segments (\d+)/m.exec(text)?.[1])
}

function isStored(daemon: TestDaemon, text: string): boolean {
  const dir = path.join(daemon.dataDir, 'buffer')
  return readdirSync(dir).some((name) => readFileSync(path.join(dir, name)).includes(text))
}

const lane = ({ daemon, pipeId, blockedId }: World) => daemon.lane(pipeId, blockedId)

async function moveClock(daemon: TestDaemon, ms: number): Promise<void> {
  await daemon.stop()
  moveBufferClock(path.join(daemon.dataDir, 'buffer'), ms)
  await daemon.start()
}

t.test(
  'after an hour nothing of the pipe is left, its lane counts it, and the other pipe has everything',
  async (t) => {
    const { daemon, short, long } = await openWorld(t)
    await moveClock(daemon, 50 * minuteMs)
    t.match(await lane(short), { dropped_messages: 0 }, 'not yet')
    t.ok(isStored(daemon, 'short-text'))
    await moveClock(daemon, 11 * minuteMs)
    const dropped = await until('the lane counts the messages', async () => {
      const now = await lane(short)
      return now.pending_messages === 0 ? now : null
    })
    t.equal(Number(dropped.dropped_messages), short.sender.messages.size)
    t.match(balance(dropped, short.sender), { accounted: short.sender.accepted.size })
    await until('no file of the buffer has them', () => !isStored(daemon, 'short-text'))
    t.ok(isStored(daemon, 'long-text'))
    const kept = await lane(long)
    t.match(kept, { dropped_messages: 0, pending_messages: long.sender.messages.size })
    const lost = daemon.log.filter((line) => line.msg === 'lane.messages_dropped')
    t.ok(
      lost.every((line) => JSON.stringify(line).includes(short.blockedId)),
      'the log names this lane only',
    )
    t.ok(lost.length > 0)
    await short.sender.send(2)
    await drained(daemon, short.pipeId, short.openId)
    t.match(await lane(short), { pending_messages: 2 }, 'new messages are kept')
    await daemon.api('PATCH', `/v1/pipes/${long.pipeId}/destinations/${long.blockedId}/status`, {
      destination_status: 'active',
    })
    const delivered = await drained(daemon, long.pipeId, long.blockedId)
    t.equal(Number(delivered.delivered_records), long.sender.accepted.size)
    t.match(delivered, { dropped_messages: 0 })
  },
)

t.test('the limit is applied when it is set, and kill -9 at any time loses nothing else', async (t) => {
  const { daemon, short, long } = await openWorld(t)
  await daemon.api('PATCH', `/v1/pipes/${short.pipeId}`, { pipe_retention_hours: null })
  await moveClock(daemon, 61 * minuteMs)
  t.match(await lane(short), { dropped_messages: 0, pending_messages: short.sender.messages.size })
  await daemon.api('PATCH', `/v1/pipes/${short.pipeId}`, { pipe_retention_hours: 1 })
  for (let round = 0; round < 4; round += 1) {
    await daemon.kill()
    await daemon.start()
    t.match(balance(await lane(short), short.sender), { accounted: short.sender.accepted.size })
    t.match(await lane(long), { dropped_messages: 0, pending_messages: long.sender.messages.size })
  }
  await until('everything is gone', async () => (await lane(short)).pending_messages === 0)
  t.match(await lane(short), { dropped_messages: short.sender.messages.size }, 'counted once')
  await daemon.stop()
  await daemon.start()
  t.match(await lane(short), { dropped_messages: short.sender.messages.size })
  t.match(await lane(long), { dropped_messages: 0, pending_messages: long.sender.messages.size })
})

t.test('a limit over that of the daemon is an error that names both', async (t) => {
  const daemon = await startDaemon({ env: { PIPECTL_BUFFER_UNDELIVERED_HOURS: '12' } })
  t.teardown(() => daemon.close())
  const pipe_retention_hours =
    'must be at most 12, which is buffer.undelivered_hours: no message is kept longer than that'
  const rejected = { status: 400, body: { errors: { pipe_retention_hours } } }
  t.match(await daemon.api('POST', '/v1/pipes', { pipe_name: 'p', pipe_retention_hours: 13 }), rejected)
  const pipe = await daemon.createPipe({ pipe_name: 'p', pipe_retention_hours: 12 })
  t.match(await daemon.api('PATCH', `/v1/pipes/${pipe}`, { pipe_retention_hours: 13 }), rejected)
  const same = { pipe_retention_hours: 12, pipe_description: 'sent back unchanged' }
  t.equal((await daemon.api('PATCH', `/v1/pipes/${pipe}`, same)).status, 200)
})
