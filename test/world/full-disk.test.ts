/**
 * The daemon on a disk that somebody else has filled to the last byte: ingest says so and promises nothing, what was
 * promised is kept, lanes go on and their cursors move, /v1 answers, and all is well again once there is room.
 * Needs root: it mounts a RAM disk of its own.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { initDataDir, startDaemon, type TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { audit, drained, readAll } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { balance, httpDestination, openSender } from './sender.ts'

const MiB = 1024 * 1024

if (process.getuid?.() !== 0)
  throw new Error(
    'this test mounts a RAM disk: run it as root (or in a container, as root with CAP_SYS_ADMIN)',
  )

function smallDisk(t: Test): string {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${64 * MiB}`, 'tmpfs', root])
  t.teardown(() => {
    execFileSync('umount', ['--lazy', root])
    rmSync(root, { recursive: true, force: true })
  })
  return root
}

const freeBytes = (root: string) => {
  const { bavail, bsize } = statfsSync(root)
  return bavail * bsize
}

/** To the last byte; the daemon may take or give back some meanwhile. */
function fillDisk(file: string): void {
  for (let size = MiB; size >= 512; size /= 2) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size, 1), { flag: 'a' })
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
    }
  }
}

async function openWorld(t: Test) {
  const root = smallDisk(t)
  const dataDir = path.join(root, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  const created = await initDataDir(dataDir)
  const daemon = await startDaemon({ dataDir })
  daemon.apiKey = created.api_key
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const pipeId = await daemon.createPipe({ pipe_name: 'full' })
  const laneId = await daemon.createDestination(pipeId, httpDestination(sink.url))
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  return { root, fill: path.join(root, 'somebody-elses'), daemon, sink, pipeId, laneId, pullId }
}

/** One try at a time, until ingest is refused; what was accepted before that counts. */
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
  t.equal(
    (await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: -1 })).status,
    503,
    'it starts on a full disk',
  )

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
  t.equal((await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: 1 })).status, 202)
  t.ok(
    daemon.log.some(({ msg, level }) => msg === 'buffer.refusing' && level === 'warn'),
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
