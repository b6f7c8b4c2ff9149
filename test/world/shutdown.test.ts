/**
 * A shutdown of which every step fails once and hangs once, with the real parts and one data directory all through:
 * each time the other steps run, and the next start finds everything.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import t from 'tap'
import { type ShutdownStep, shutdownDeadlinesMs } from '../../src/daemon/shutdown-steps.ts'
import { startBucketServer } from '../support/bucket-server.ts'
import { childFlags } from '../support/child-flags.ts'
import { binary, call, cleanEnv, type LogLine, startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { drained } from '../support/ledger.ts'
import { replicaEnv } from '../support/replica.ts'
import { until } from '../support/until.ts'
import { httpDestination } from './sender.ts'

const child = new URL('../support/shutdown-child.ts', import.meta.url).pathname
/** The additional steps of a cluster node are tested in test/world/cluster. */
const ofNodes: readonly string[] = ['close node requests', 'leave cluster'] satisfies ShutdownStep[]
const steps = (Object.keys(shutdownDeadlinesMs) as ShutdownStep[]).filter((step) => !ofNodes.includes(step))
const sink = await startHttpSink()
t.teardown(() => sink.stop())
// So that there is a replica to close.
const bucket = await startBucketServer()
t.teardown(() => bucket.stop())
const daemon = await startDaemon()
t.teardown(() => daemon.close())
const pipeId = await daemon.createPipe({ pipe_name: 'stopping' })
const laneId = await daemon.createDestination(pipeId, httpDestination(sink.url))
await daemon.stop()

async function startChild(failing: ShutdownStep, hanging: ShutdownStep) {
  const args = [...childFlags, child, daemon.dataDir, failing, hanging]
  const started = spawn(process.execPath, args, {
    env: cleanEnv(replicaEnv(bucket)),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exit = new Promise((resolve) => started.once('exit', (code, signal) => resolve(code ?? signal)))
  const log: LogLine[] = []
  createInterface(started.stderr).on('line', (line) => log.push(JSON.parse(line)))
  const has = (msg: string) => log.find((line) => line.msg === msg)
  await until(`${failing}: the daemon is ready`, () => has('child.broken'))
  return { log, url: String(has('daemon.ready')?.url), pid: started.pid ?? 0, exit }
}

t.test('each step fails in one run and hangs in the next: the others run, nothing is lost', async (t) => {
  for (const [index, failing] of steps.entries()) {
    const hanging = steps[(index + 1) % steps.length]!
    const { log, url, pid, exit } = await startChild(failing, hanging)
    const headers = { authorization: `Bearer ${daemon.apiKey}`, 'content-type': 'application/json' }
    const { status } = await call('POST', `${url}/v1/ingest/${pipeId}`, headers, JSON.stringify({ n: index }))
    t.equal(status, 202)
    process.kill(pid, 'SIGTERM')
    t.equal(await exit, 70)
    const named = (msg: string) => log.filter((line) => line.msg === msg).map(({ step }) => step)
    t.same(new Set(named('shutdown.step_failed')), new Set([failing, hanging]))
    t.same(
      named('shutdown.step'),
      steps.filter((step) => step !== failing && step !== hanging),
      `${failing} fails, ${hanging} hangs`,
    )
  }
  await daemon.start()
  const lane = await drained(daemon, pipeId, laneId)
  t.match(lane, { delivered_records: steps.length, dropped_messages: 0, skipped_messages: 0 })
  const arrived = new Set(sink.records().map(({ n }) => n))
  t.same([...arrived], [...steps.keys()], 'all of them, in order')
  const list = await daemon.api<{ usage_by_pipe: Record<string, Record<string, unknown>> }>(
    'GET',
    '/v1/pipes',
  )
  t.equal(list.body.usage_by_pipe[pipeId]?.ingest_records, steps.length, 'and counted')
  t.equal(await daemon.stop(), 0)
})

t.test('a start that fails closes what it had opened and reports its own error', async (t) => {
  const taken = await startHttpSink()
  t.teardown(() => taken.stop())
  const args = [
    'serve',
    '--data-dir',
    daemon.dataDir,
    '--listen',
    `127.0.0.1:${taken.port}`,
    '--log-level',
    'debug',
  ]
  const failed = spawn(process.execPath, [binary, ...args], {
    env: cleanEnv(),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let text = ''
  failed.stderr.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  t.equal(await new Promise((resolve) => failed.once('close', resolve)), 75)
  t.match(text, new RegExp(`error: listen: 127.0.0.1:${taken.port} is in use`))
  const closed = text.split('\n').filter((line) => line.includes('"shutdown.step"'))
  const opened: ShutdownStep[] = [
    'close delivery',
    'close buffer',
    'close metadata',
    'release data directory',
  ]
  for (const step of opened)
    t.ok(
      closed.some((line) => line.includes(step)),
      step,
    )
  t.notOk(text.includes('step_failed'))
})
