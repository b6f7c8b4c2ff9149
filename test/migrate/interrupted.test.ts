/**
 * A move that is killed (-9) again and again begins again: nothing is missing, nothing is there twice, the order holds. The negative
 * control: a stream with messages that no run of this move has written is refused, and nothing of it is removed.
 */
import { cpSync } from 'node:fs'
import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { finished } from '../support/cli.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type MoveTargets, pullAll, startMoved, startMoveTargets } from '../support/moving.ts'
import { until } from '../support/until.ts'

const stream = 'pipectl-pipectl'
const messages = 1_200
/** 48 MB in frames of 1 MiB. */
const framesOfMove = 40
const text = 'x'.repeat(40_000)

async function framesIn({ nats }: MoveTargets): Promise<number> {
  const connection = await nats.connect()
  try {
    return (await (await jetstreamManager(connection)).streams.info(stream)).state.messages
  } catch {
    return 0
  } finally {
    await connection.close()
  }
}

/** Kills the move once the stream has so many frames. True: it had not ended before. */
async function killedAt(targets: MoveTargets, dataDir: string, frames: number): Promise<boolean> {
  const child = targets.startMigrate(['--to-cluster'], dataDir)
  const end = finished(child)
  const ended = () => child.exitCode !== null
  await until(`${frames} frames`, async () => ended() || (await framesIn(targets)) >= frames, { everyMs: 5 })
  child.kill('SIGKILL')
  return (await end).code === 'SIGKILL'
}

/** One pipe with a pull lane that takes some and one without lanes; half of the messages have keys. */
async function fill(daemon: TestDaemon): Promise<string> {
  const pipes = [await daemon.createPipe({ pipe_name: 'a' }), await daemon.createPipe({ pipe_name: 'b' })]
  const pull = await daemon.createDestination(pipes[0]!, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  for (let n = 0; n < messages; n += 40) {
    const some = Array.from({ length: 40 }, (_, index) => n + index)
    await Promise.all(
      some.map(async (number) => {
        const keyed: Record<string, string> = number % 2 === 0 ? { 'idempotency-key': `k${number}` } : {}
        const sent = await daemon.api(
          'POST',
          `/v1/ingest/${pipes[number % 4 === 1 ? 1 : 0]}`,
          [{ n: number, text }],
          {
            headers: keyed,
          },
        )
        t.equal(sent.status, 202)
      }),
    )
  }
  for (let n = 0; n < 7; n += 1) await daemon.api('GET', `/v1/pull/${pull}`)
  return pull
}

t.test('killed at any point it begins again, without a gap and without a repeat', async (t) => {
  const targets = await startMoveTargets()
  const daemon = await startDaemon()
  t.teardown(async () => {
    await daemon.close()
    await targets.stop()
  })
  const pull = await fill(daemon)
  t.equal(await daemon.stop(), 0)
  const keyFile = path.join(daemon.dataDir, 'sealing.key')
  const [copy, beforeMove] = [targets.directory('copy', keyFile), targets.directory('before', keyFile)]
  for (const directory of [copy, beforeMove]) cpSync(daemon.dataDir, directory, { recursive: true })
  const beside = await startMoved(daemon, copy)
  const pending = await pullAll(beside, pull)
  t.equal(pending.length, (messages * 3) / 4 - 7)
  await beside.stop()

  const points = [1, 0.2, 0.5, 0.8, 0.97].map((share) => (share === 1 ? 1 : Math.ceil(share * framesOfMove)))
  let kills = 0
  for (const point of points) if (await killedAt(targets, daemon.dataDir, point)) kills += 1
  t.ok(kills >= 3, `${kills} times it was killed before its end`)
  await t.rejects(
    startMoved(daemon, targets.directory('early', keyFile), targets.env),
    /ended with 78[\s\S]*is not finished/,
    'no node starts on a half',
  )
  const done = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(done.code, 0, done.stderr)
  t.match(JSON.parse(done.stdout), { messages, missing_messages: 0 })

  const unmarked = targets.directory('unmarked', keyFile)
  cpSync(beforeMove, unmarked, { recursive: true })
  const finished = await targets.migrate(['--to-cluster'], unmarked)
  t.equal(finished.code, 0, 'as if it had been killed just before the mark')
  t.match(JSON.parse(finished.stdout), { was_done: true })

  const node = await startMoved(daemon, targets.directory('node', keyFile), targets.env)
  t.same(await pullAll(node, pull), pending, 'the same messages in the same order')
  t.equal(await node.stop(), 0)

  const served = await startMoved(daemon, beforeMove)
  await served.createPipe({ pipe_name: 'since' })
  await served.stop()
  const again = await targets.migrate(['--to-cluster'], beforeMove)
  t.equal(again.code, 5, 'what was changed since is never taken for moved')
  t.match(again.stderr, /is in use: it has an earlier move from here/)
})

t.test('negative control: a stream that no run of the move has written is not removed', async (t) => {
  const targets = await startMoveTargets()
  const daemon = await startDaemon()
  t.teardown(async () => {
    await daemon.close()
    await targets.stop()
  })
  await fill(daemon)
  t.equal(await daemon.stop(), 0)
  t.ok(await killedAt(targets, daemon.dataDir, 1))
  const frames = await framesIn(targets)
  await targets.postgres.query("DELETE FROM metadata_settings WHERE name = 'moving'")
  for (const more of [['--dry-run'], [], []]) {
    const result = await targets.migrate(['--to-cluster', ...more], daemon.dataDir)
    t.equal(result.code, 78, result.stdout)
    t.match(result.stderr, /already contains messages; nothing was changed/)
    t.equal(await framesIn(targets), frames)
  }
  await daemon.start()
  t.equal(await daemon.stop(), 0, 'the source is served from as before')
})
