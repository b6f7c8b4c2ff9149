/**
 * A move that is killed (-9) again and again goes on where it was: nothing is missing, nothing is there twice, the order holds. The
 * negative control plants a message in the target, and the move must see it.
 */
import { cpSync } from 'node:fs'
import path from 'node:path'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import t from 'tap'
import { finished } from '../support/cli.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type MoveTargets, pullAll, startMoved, startMoveTargets } from '../support/moving.ts'
import { until } from '../support/until.ts'

const stream = 'pipectl-pipectl'
const messages = 1_200

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

/** One pipe with a pull lane that takes some and one without lanes; half of the messages have keys, so there are many frames. */
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
          [{ n: number }],
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

t.test('killed at any point it goes on without a gap and without a repeat', async (t) => {
  const targets = await startMoveTargets()
  const daemon = await startDaemon()
  t.teardown(async () => {
    await daemon.close()
    await targets.stop()
  })
  const pull = await fill(daemon)
  t.equal(await daemon.stop(), 0)
  const keyFile = path.join(daemon.dataDir, 'sealing.key')
  const copy = targets.directory('copy', keyFile)
  cpSync(daemon.dataDir, copy, { recursive: true })
  const beside = await startMoved(daemon, copy)
  const pending = await pullAll(beside, pull)
  t.equal(pending.length, (messages * 3) / 4 - 7)
  await beside.stop()

  const points = [1, 0.2, 0.5, 0.8, 0.97].map((share) =>
    share === 1 ? 1 : Math.floor(share * (messages / 2)),
  )
  let kills = 0
  for (const point of points) if (await killedAt(targets, daemon.dataDir, point)) kills += 1
  t.ok(kills >= 3, `${kills} times it was killed before its end`)
  t.ok((await framesIn(targets)) > points.at(-1)! / 2, 'what was copied stays')
  await t.rejects(
    startMoved(daemon, targets.directory('early', keyFile), targets.env),
    /ended with 78[\s\S]*is not finished/,
    'no node starts on a half',
  )
  const done = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(done.code, 0, done.stderr)
  t.match(JSON.parse(done.stdout), { messages, missing_messages: 0 })

  await targets.migrate(['--undo', '--yes'], daemon.dataDir)
  const unmarked = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(unmarked.code, 0, 'as if it had been killed just before the mark')
  t.match(JSON.parse(unmarked.stdout), { was_done: true })

  const node = await startMoved(daemon, targets.directory('node', keyFile), targets.env)
  t.same(await pullAll(node, pull), pending, 'the same messages in the same order')
  t.equal(await node.stop(), 0)

  await targets.migrate(['--undo', '--yes'], daemon.dataDir)
  await daemon.start()
  await daemon.createPipe({ pipe_name: 'since' })
  await daemon.stop()
  const served = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(served.code, 5, 'what was changed after an undo is never taken for moved')
  t.match(served.stderr, /is in use: it has an earlier move from here/)
})

t.test('negative control: a message too many in the target is found, and nothing is moved', async (t) => {
  const targets = await startMoveTargets()
  const daemon = await startDaemon()
  t.teardown(async () => {
    await daemon.close()
    await targets.stop()
  })
  await fill(daemon)
  t.equal(await daemon.stop(), 0)
  await killedAt(targets, daemon.dataDir, Math.floor(messages / 4))
  const connection = await targets.nats.connect()
  const manager = await jetstreamManager(connection)
  const { last_seq: last } = (await manager.streams.info(stream)).state
  const frame = await manager.streams.getMessage(stream, { seq: last })
  const again = headers()
  for (const [name, values] of frame?.header ?? []) {
    if (name.startsWith('Pipectl-')) for (const value of values) again.append(name, value)
  }
  await jetstream(connection).publish(frame!.subject, frame!.data, { headers: again })
  await connection.close()
  const result = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(result.code, 1, result.stdout)
  t.match(result.stderr, /the source has message .* where the target has .*nothing was moved/)
  await daemon.start()
  t.equal(await daemon.stop(), 0, 'the source is served from as before')
})
