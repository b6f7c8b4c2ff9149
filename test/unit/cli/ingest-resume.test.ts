import { once } from 'node:events'
import { createWriteStream, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { cliEnv, finished, makeHome, removeHome, runCli, startCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { until } from '../../support/until.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)

async function acceptedRecords(pipeName: string): Promise<number> {
  const { body } = await daemon.api<{
    pipes: { pipe_id: string; pipe_name: string }[]
    usage_by_pipe: Record<string, { ingest_records: number }>
  }>('GET', '/v1/pipes')
  const id = body.pipes.find((one) => one.pipe_name === pipeName)?.pipe_id ?? ''
  return body.usage_by_pipe[id]?.ingest_records ?? 0
}

/** Every id that a pull lane delivers, in order. */
async function pulledIds(destination: string): Promise<number[]> {
  const ran = await runCli(['pull', destination, '-o', 'ndjson'], { env, timeoutMs: 120_000 })
  if (ran.code !== 0) throw new Error(ran.stderr)
  return ran.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line).id)
}

async function pipeWithPull(name: string): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
  return pipeId
}

t.test(
  '100,000 records, interrupted by Ctrl-C and by kill -9, are all delivered, each once and in order',
  async (t) => {
    await pipeWithPull('big')
    const total = 100_000
    const file = path.join(home, 'big.ndjson')
    const out = createWriteStream(file)
    for (let id = 0; id < total; id += 1) {
      if (!out.write(`{"id":${id},"amount":1.10,"text":"record number ${id}"}\n`)) await once(out, 'drain')
    }
    out.end()
    await once(out, 'close')
    const args = ['ingest', 'big', '-f', file, '--batch-records', '250', '-o', 'json']

    const first = startCli(args, { env })
    const firstEnd = finished(first)
    await until('some of it is accepted', async () => (await acceptedRecords('big')) > 5_000, { everyMs: 5 })
    first.kill('SIGINT')
    const interrupted = await firstEnd
    t.equal(interrupted.code, 130, interrupted.stderr)
    t.match(interrupted.stderr, /run the same command again/)

    const before = await acceptedRecords('big')
    t.ok(before < total, 'it was interrupted half-way')
    const second = startCli(args, { env })
    const secondEnd = finished(second)
    await until('more of it is accepted', async () => (await acceptedRecords('big')) > before + 5_000, {
      everyMs: 5,
    })
    second.kill('SIGKILL')
    t.equal((await secondEnd).code, 'SIGKILL')

    const third = await runCli(args, { env, timeoutMs: 120_000 })
    t.equal(third.code, 0, third.stderr)
    t.match(third.stderr, /Continuing after record \d+/)
    t.ok(JSON.parse(third.stdout).records_count < total, 'the last run sent only the rest')
    const ids = await pulledIds('big/pull')
    t.equal(ids.length, total)
    t.same(
      ids.findIndex((id, index) => id !== index),
      -1,
      'each once, in the order of the file',
    )

    const again = await runCli(args, { env })
    t.equal(again.code, 6, 'a file that was sent is not sent again')
    t.match(again.stderr, /add --again/)
  },
)

t.test('a run without its state repeats no record: the keys are what prevents it', async (t) => {
  await pipeWithPull('control')
  const file = path.join(home, 'control.ndjson')
  writeFileSync(file, '{"id":1}\n{"id":2}\n')
  const run = async (state: string, ...more: string[]) => {
    const stateless = { ...env, XDG_STATE_HOME: path.join(home, `state-${state}`) }
    t.equal((await runCli(['ingest', 'control', '-f', file, ...more], { env: stateless })).code, 0)
  }
  await run('a')
  await run('b')
  await run('c', '--again')
  t.same(
    await pulledIds('control/pull'),
    [1, 2, 1, 2],
    'only --again, which has other keys, sends them twice',
  )
})

t.test('a file that grew is sent from where it ended; one that was replaced is sent whole', async (t) => {
  await pipeWithPull('growing')
  const file = path.join(home, 'growing.ndjson')
  const ingest = () => runCli(['ingest', 'growing', '-f', file, '-o', 'json'], { env })
  writeFileSync(file, '{"id":1}\n{"id":2}\n')
  t.equal((await ingest()).code, 0)
  writeFileSync(file, '{"id":3}\n', { flag: 'a' })
  t.match(JSON.parse((await ingest()).stdout), { records_count: 1, resumed_after_records: 2 })
  writeFileSync(file, '{"id":7}\n{"id":8}\n{"id":9}\n')
  t.match(JSON.parse((await ingest()).stdout), { records_count: 3, resumed_after_records: 0 })
  t.same(await pulledIds('growing/pull'), [1, 2, 3, 7, 8, 9])
})

t.test('stdin in every form; records keep their text; limits of the pipe cut the batches', async (t) => {
  const pipeId = await pipeWithPull('forms')
  await daemon.api('PUT', `/v1/pipes/${pipeId}/limits`, {
    pl_ingest_max_records_per_request: 2,
    pl_ingest_max_records_per_second: 100_000,
    pl_ingest_max_records_per_day: 1_000_000,
    pl_delivery_max_records_per_flush: 1000,
    pl_delivery_max_bytes_per_flush: 1_000_000,
    pl_delivery_max_seconds_per_flush: 1,
  })
  const inputs = [
    '{"id": 1, "n": 1.10}',
    '[{"id":2},{"id":12345678901234567890},{"id":4}]',
    '{"id":5}\n{"id":6}\n',
  ]
  for (const input of inputs) {
    const ran = await runCli(['ingest', 'forms'], { env, input })
    t.equal(ran.code, 0, ran.stderr)
  }
  const pulled = await runCli(['pull', 'forms/pull'], { env })
  t.equal(
    pulled.stdout,
    '{"id": 1, "n": 1.10}\n{"id":2}\n{"id":12345678901234567890}\n{"id":4}\n{"id":5}\n{"id":6}\n',
  )
  const wrong = await runCli(['ingest', 'forms'], { env, input: '{"id":7}\n42\n' })
  t.equal(wrong.code, 1)
  t.match(wrong.stderr, /stdin, line 2: it is not a JSON object/)
  t.equal((await runCli(['ingest', 'forms'], { env, input: '\n' })).code, 6, 'nothing to send')
  t.equal((await runCli(['ingest', 'none'], { env, input: '{}' })).code, 3)
  t.equal((await runCli(['ingest', 'forms', '-f', '/no/such/file'], { env })).code, 2)
})

t.test('a rejection for the rate is waited out; a day quota is reported at once', async (t) => {
  const pipeId = await pipeWithPull('slow')
  const limits = {
    pl_ingest_max_records_per_request: 10,
    pl_ingest_max_records_per_second: 20,
    pl_ingest_max_records_per_day: 50,
    pl_delivery_max_records_per_flush: 1000,
    pl_delivery_max_bytes_per_flush: 1_000_000,
    pl_delivery_max_seconds_per_flush: 1,
  }
  await daemon.api('PUT', `/v1/pipes/${pipeId}/limits`, limits)
  const records = (count: number) => Array.from({ length: count }, (_, id) => `{"id":${id}}`).join('\n')
  const slow = await runCli(['ingest', 'slow'], { env, input: records(50) })
  t.equal(slow.code, 0, slow.stderr)
  t.match(slow.stderr, /rate_limit_exceeded.*trying again/)
  const over = await runCli(['ingest', 'slow'], { env, input: records(10) })
  t.equal(over.code, 1)
  t.match(over.stderr, /daily_quota_exceeded/)
  t.equal((await pulledIds('slow/pull')).length, 50)
})
