import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { cliEnv, finished, makeHome, removeHome, runCli, startCli } from '../../support/cli.ts'
import { binary, cleanEnv, startDaemon } from '../../support/daemon.ts'
import { startGateway } from '../../support/gateway.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { programFile } from '../../support/programs.ts'
import { scaled } from '../../support/scale.ts'
import { until } from '../../support/until.ts'

const daemon = await startDaemon()
const home = makeHome()
const sink = await startHttpSink()
t.teardown(async () => {
  await sink.stop()
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)

async function filled(name: string, messages: number, config: object = {}): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: config })
  for (let id = 0; id < messages; id += 1) await daemon.ingest(pipeId, `{"id":${id}, "v":1.10}`)
  return pipeId
}
const linesOf = (text: string) => text.split('\n').filter((line) => line !== '')
const idsOf = (text: string): number[] => linesOf(text).map((line) => JSON.parse(line).id)

/** `--scale` of test/run-files.ts multiplies it. */
const kills = scaled(5)

t.test(`a consumer killed ${kills} times loses nothing`, async (t) => {
  const total = 20 * kills
  await filled('killed', total)
  const file = path.join(home, 'killed.ndjson')
  writeFileSync(file, '')
  const lines = () => linesOf(readFileSync(file, 'utf8')).length
  // A shell command appends each message: a kill between it and the saving of the cursor shows as a repetition.
  const args = ['pull', 'killed/pull', '--follow', '--exec', `cat >> '${file}'`]
  for (let kill = 1; kill <= kills; kill += 1) {
    const before = lines()
    const consumer = startCli(args, { env })
    const end = finished(consumer)
    await until(`consumer ${kill} writes`, () => lines() > before, { everyMs: 1 })
    consumer.kill('SIGKILL')
    t.equal((await end).code, 'SIGKILL')
  }
  const last = await runCli(['pull', 'killed/pull', '--exec', `cat >> '${file}'`], { env })
  t.equal(last.code, 0, last.stderr)
  const ids = idsOf(readFileSync(file, 'utf8'))
  t.equal(new Set(ids).size, total, 'every record is there')
  t.ok(ids.length <= total + kills, 'a kill repeats at most the message under way')
  t.same([...new Set(ids)], [...ids.keys()].slice(0, total), 'in order')
})

t.test('--once takes one message, without it all; the end is exit code 6', async (t) => {
  await filled('plain', 3)
  const once = await runCli(['pull', 'plain/pull', '--once'], { env })
  t.equal(once.stdout, '{"id":0, "v":1.10}\n', 'the record as it was sent')
  const rest = await runCli(['pull', 'plain/pull', '-o', 'json'], { env })
  t.same(
    linesOf(rest.stdout).map((line) => JSON.parse(line).records[0].id),
    [1, 2],
  )
  t.match(JSON.parse(linesOf(rest.stdout)[0] ?? ''), { msg_id: String, stream_seq: Number, pipe_id: String })
  t.equal((await runCli(['pull', 'plain/pull'], { env })).code, 6)
})

t.test('a record cannot act on the terminal that shows it; in a pipe it is as it was sent', async (t) => {
  const pipeId = await filled('acting', 0)
  const record = '{"v":"\u009b2J\u202e"}'
  await daemon.ingest(pipeId, record)
  await daemon.ingest(pipeId, record)
  const piped = await runCli(['pull', 'acting/pull', '--once'], { env })
  t.equal(piped.stdout, `${record}\n`)
  const command = [process.execPath, binary, 'pull', 'acting/pull', '--once'].map((word) => `'${word}'`)
  // It gives a command a terminal of its own.
  const script = spawn(programFile('script'), ['-qec', command.join(' '), '/dev/null'], {
    env: cleanEnv(env),
  })
  script.stdin?.end()
  t.match((await finished(script)).stdout, '{"v":"\\u009b2J\\u202e"}\r\n')
})

t.test('a command that fails, or a URL that rejects, leaves the cursor where it was', async (t) => {
  await filled('refused', 2)
  const failed = await runCli(['pull', 'refused/pull', '--exec', 'exit 3'], { env })
  t.equal(failed.code, 1)
  t.match(failed.stderr, /exited with 3/)
  sink.respondWith(() => ({ status: 400 }))
  const refused = await runCli(['pull', 'refused/pull', '--forward-to', `${sink.url}/in`], { env })
  t.equal(refused.code, 1)
  t.match(refused.stderr, /HTTP 400/)
  sink.respondWith(() => ({ status: 204 }))
  const before = sink.deliveries.length
  const taken = await runCli(['pull', 'refused/pull', '--forward-to', `${sink.url}/in`], {
    env: { ...env, PIPECTL_FORWARD_AUTH_HEADER: 'Bearer f' },
  })
  t.equal(taken.code, 0, taken.stderr)
  const deliveries = sink.deliveries.slice(before)
  t.same(
    deliveries.map((one) => one.text),
    ['{"id":0, "v":1.10}\n', '{"id":1, "v":1.10}\n'],
  )
  t.match(deliveries[0]?.headers, { authorization: 'Bearer f', 'content-type': 'application/x-ndjson' })
})

t.test('--follow waits for what comes and ends at Ctrl-C with 130', async (t) => {
  const pipeId = await filled('followed', 1)
  const file = path.join(home, 'followed.ndjson')
  const args = ['pull', 'followed/pull', '--follow', '--exec', `cat >> '${file}'`]
  const lines = () => (existsSync(file) ? linesOf(readFileSync(file, 'utf8')).length : 0)
  const consumer = startCli(args, { env })
  const end = finished(consumer)
  await until('the first message came', () => lines() === 1)
  await daemon.ingest(pipeId, '{"id":1}')
  await until('the second message came', () => lines() === 2)
  consumer.kill('SIGINT')
  const ended = await end
  t.equal(ended.code, 130)
  t.match(ended.stderr, /continues where it stopped/)
})

t.test('--follow repeats a pull that a gateway answers with 408; other modes end', async (t) => {
  await filled('timed-out', 1)
  const gateway = await startGateway(daemon.url)
  t.teardown(() => gateway.stop())
  const throughGateway = { ...env, PIPECTL_URL: gateway.url }
  gateway.respondTo('/v1/pull/', 408, 1)
  const once = await runCli(['pull', 'timed-out/pull', '--once'], { env: throughGateway })
  t.match(once, { code: 1, stdout: '', stderr: /408/ })
  t.equal(gateway.responded(), 1)
  gateway.respondTo('/v1/pull/', 408, 2)
  const consumer = startCli(['pull', 'timed-out/pull', '--follow'], { env: throughGateway })
  t.teardown(() => consumer.kill('SIGKILL'))
  let stdout = ''
  consumer.stdout?.on('data', (piece: Buffer) => (stdout += piece.toString()))
  const end = finished(consumer)
  await until('the message came', () => stdout === '{"id":0, "v":1.10}\n')
  consumer.kill('SIGINT')
  const ended = await end
  t.equal(ended.stderr.match(/408.*; trying again in \d+ s/g)?.length, 2, ended.stderr)
  t.equal(gateway.responded(), 3)
})

t.test('explicit acknowledgement: a failed command gives the message back at once', async (t) => {
  await filled('leased', 2, { ack_mode: 'explicit', lease_seconds: 600 })
  t.equal((await runCli(['pull', 'leased/pull', '--exec', 'exit 1'], { env })).code, 1)
  const ran = await runCli(['pull', 'leased/pull'], { env })
  t.same(idsOf(ran.stdout), [0, 1])
  t.equal((await runCli(['pull', 'leased/pull'], { env })).code, 6)
})

t.test('wrong use is told', async (t) => {
  await daemon.createPipe({ pipe_name: 'empty' })
  const both = await runCli(['pull', 'plain/pull', '--once', '--follow'], { env })
  t.equal(both.code, 2)
  t.equal((await runCli(['pull', 'empty'], { env })).code, 3)
})
