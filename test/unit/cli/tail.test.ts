/** `pipectl tail` against a real daemon. */
import { spawn } from 'node:child_process'
import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { conditionOf } from '../../../src/apps/cli/tail/records.ts'
import { cliEnv, finished, makeHome, removeHome, runCli, startCli } from '../../support/cli.ts'
import { binary, cleanEnv, startDaemon, type TestDaemon } from '../../support/daemon.ts'
import { startGateway } from '../../support/gateway.ts'
import { programFile } from '../../support/programs.ts'
import { until } from '../../support/until.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
let pipes = 0
const newPipe = async (of = daemon) => {
  const name = `pipe-${++pipes}`
  return { name, id: await of.createPipe({ pipe_name: name, pipe_add_ingest_ts: false }) }
}

/** A tail that is running, with what it has said so far. */
function startTail(t: Test, args: readonly string[], ownEnv = env) {
  const child = startCli(['tail', ...args], { env: ownEnv })
  const tail = { child, stdout: '', stderr: '', end: finished(child) }
  child.stdout?.on('data', (piece: Buffer) => (tail.stdout += piece.toString()))
  child.stderr?.on('data', (piece: Buffer) => (tail.stderr += piece.toString()))
  t.teardown(() => child.kill('SIGKILL'))
  return tail
}
const linesOf = (text: string) => text.split('\n').filter((line) => line !== '')
const idsOf = (text: string): number[] => linesOf(text).map((line) => JSON.parse(line).id)

t.test('in a pipe each record is a line, its digits as they were sent; Ctrl-C is 130', async (t) => {
  const pipe = await newPipe()
  await daemon.ingest(pipe.id, '[{"n":12345678901234567890,\n"x":1.10},{"s":"\u009b2J"}]')
  const tail = startTail(t, [pipe.name, '--after-seq', '0'])
  await until('both came', () => linesOf(tail.stdout).length === 2)
  t.strictSame(linesOf(tail.stdout), ['{"n":12345678901234567890, "x":1.10}', '{"s":"\u009b2J"}'])
  await daemon.ingest(pipe.id, { later: true })
  await until('what is stored later came', () => tail.stdout.includes('later'))
  tail.child.kill('SIGINT')
  const { code, stderr } = await tail.end
  t.equal(code, 130)
  t.match(stderr, new RegExp(`pipectl tail ${pipe.name} --after-seq \\d+`), 'where to go on')
})

t.test('-o json has msg_id, stream_seq and time with it', async (t) => {
  const pipe = await newPipe()
  const { msg_id } = await daemon.ingest(pipe.id, '{"x":1.10}')
  const tail = startTail(t, [pipe.name, '--after-seq', '0', '-o', 'json'])
  await until('it came', () => tail.stdout.endsWith('\n'))
  t.match(JSON.parse(tail.stdout), { msg_id, stream_seq: Number, index: 0, received_ts: String })
  t.match(tail.stdout, '"record":{"x":1.10}}\n')
})

t.test('on a terminal: time, end of the msg_id and record, cut to the window, harmless', async (t) => {
  const pipe = await newPipe()
  const { msg_id } = await daemon.ingest(pipe.id, { v: '\u009b2J\u202e', long: 'y'.repeat(500) })
  const command = [process.execPath, binary, 'tail', pipe.name, '--after-seq', '0'].map((word) => `'${word}'`)
  // It gives a command a terminal of its own.
  const script = spawn(programFile('script'), ['-qec', `stty cols 80; ${command.join(' ')}`, '/dev/null'], {
    env: { ...cleanEnv(env), NO_COLOR: '1' },
  })
  t.teardown(() => script.kill('SIGKILL'))
  let shown = ''
  script.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text))
  const line = await until('the line came', () => shown.split('\r\n').find((one) => one.includes('"v"')))
  t.match(line, /^\d\d:\d\d:\d\d\.\d{3}Z …/)
  t.match(line, `…${String(msg_id).slice(-8)}  {"v":"\\u009b2J\\u202e","long":"yyy`)
  t.ok(line.endsWith('…'))
  t.equal(line.length, 80)
})

t.test('--where: all must hold, keys inside objects, as text', async (t) => {
  const pipe = await newPipe()
  await daemon.ingest(pipe.id, [
    { id: 1, status: 'paid', customer: { country: 'AT' } },
    { id: 2, status: 'paid', customer: { country: 'DE' } },
    { id: 3, status: 'open', customer: { country: 'AT' } },
    { id: 4, status: 'paid', customer: 'AT' },
    { id: 5, status: 'paid', customer: { country: 'AT' } },
  ])
  const where = ['--where', 'status=paid', '--where', 'customer.country=AT']
  const tail = startTail(t, [pipe.name, '--after-seq', '0', ...where])
  await until('the last came', () => linesOf(tail.stdout).length === 2)
  t.strictSame(idsOf(tail.stdout), [1, 5])
  const wrong = await runCli(['tail', pipe.name, '--where', 'status'], { env })
  t.equal(wrong.code, 2)
  t.match(wrong.stderr, '--where status=paid', 'says how')
})

t.test('--where compares the text of the value', async (t) => {
  const record = '{"n":1.10,"big":12345678901234567890,"s":"a=b","a.b":true,"o":{"k":null,"x":{"y":"1"}}}'
  for (const [where, holds] of [
    ['n=1.10', true],
    ['n=1.1', false],
    ['big=12345678901234567890', true],
    ['big=12345678901234567000', false],
    ['s=a=b', true],
    ['s="a=b"', true],
    ['a.b=true', true],
    ['o.k=null', true],
    ['o.x.y=1', true],
    ['o.x={"y":"1"}', true],
    ['o.k.z=1', false],
    ['n.z=1', false],
    ['none=', false],
  ] as const)
    t.equal(conditionOf([where])(record), holds, where)
})

t.test('what is left out is counted on stderr', async (t) => {
  const pipe = await newPipe()
  const tail = startTail(t, [pipe.name, '--sample', '5', '--after-seq', '0'])
  const records = Array.from({ length: 100 }, (_, id) => ({ id }))
  await daemon.ingest(pipe.id, records)
  const leftOut = () =>
    [...tail.stderr.matchAll(/(\d+) records? left out/g)].reduce((sum, [, n]) => sum + Number(n), 0)
  await until('all are accounted for', () => linesOf(tail.stdout).length + leftOut() === 100)
  t.ok(leftOut() > 0)
})

t.test('values that are not allowed, and a pipe that there is not', async (t) => {
  const pipe = await newPipe()
  const wrong = await runCli(['tail', pipe.name, '--sample', '1001'], { env })
  t.match(wrong, { code: 2, stderr: /sample: must be a whole number from 1 to 1000/ })
  t.equal((await runCli(['tail', 'none'], { env })).code, 3)
})

t.test('a reader that goes ends it quietly', async (t) => {
  const pipe = await newPipe()
  await daemon.ingest(pipe.id, { id: 1 })
  const child = startCli(['tail', pipe.name, '--after-seq', '0'], { env })
  child.stdout?.destroy()
  t.match(await finished(child), { code: 141, stderr: '' })
})

t.test('it ends with its pipe (3) and with its key (4), and says why', async (t) => {
  const pipe = await newPipe()
  const made = await daemon.api('POST', '/v1/api-keys', { api_key_name: 'watch', api_key_scopes: ['read'] })
  const key = String(made.body.api_key)
  const ofKey = startTail(t, [pipe.name, '--after-seq', '0'], { ...env, PIPECTL_API_KEY: key })
  const ofPipe = startTail(t, [pipe.name, '--after-seq', '0'])
  await daemon.ingest(pipe.id, { id: 1 })
  await until('both follow', () => ofKey.stdout !== '' && ofPipe.stdout !== '')
  await daemon.api('DELETE', `/v1/api-keys/${made.body.api_key_id}`)
  t.match(await ofKey.end, { code: 4, stderr: /revoked.*\n.*next:/ })
  await daemon.api('DELETE', `/v1/pipes/${pipe.id}`)
  t.match(await ofPipe.end, { code: 3, stderr: /deleted.*\n.*next:/ })
})

/** One address for a daemon whose own changes with each start; what is open is cut with `cut`. */
async function startDoor(t: Test, of: TestDaemon) {
  const sockets = new Set<Socket>()
  let streams = 0
  const server = createServer((client) => {
    const upstream = connect(Number(new URL(of.url).port), '127.0.0.1')
    upstream.on('data', (chunk) => {
      if (chunk.includes('text/event-stream')) streams += 1
    })
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(one)
          other.destroy()
        })
      one.pipe(other)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(() => {
    cut()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return { url: `http://127.0.0.1:${address.port}`, cut, streams: () => streams }
}

t.test('a restart of the daemon and a cut connection: no loss, no repetition, and it says so', async (t) => {
  const own = await startDaemon()
  t.teardown(() => own.close())
  const door = await startDoor(t, own)
  const ownEnv = { ...cliEnv(own, home), PIPECTL_URL: door.url }
  const pipe = await newPipe(own)
  const idle = await newPipe(own)
  const tail = startTail(t, [pipe.name], ownEnv)
  const quiet = startTail(t, [idle.name], ownEnv)
  let sent = 0
  await until('it follows', async () => {
    await own.ingest(pipe.id, { id: sent })
    sent += 1
    return tail.stdout !== ''
  })
  await until('the quiet one follows as well', () => door.streams() >= 2)
  // It began somewhere in these: from there on every one must be there, once.
  const first = idsOf(tail.stdout)[0]!
  const send = async (times: number) => {
    for (let n = 0; n < times; n += 1) await own.ingest(pipe.id, [{ id: sent++ }, { id: sent++ }])
  }
  const untilAll = () => until('all came', () => idsOf(tail.stdout).length === sent - first)
  await send(5)
  await untilAll()
  t.equal(await own.stop(), 0)
  await until('it says that the daemon is gone', () => /trying again in/.test(tail.stderr))
  await own.start()
  await send(5)
  await untilAll()
  await until('the one that had shown nothing is back', () => /connected again/.test(quiet.stderr))
  door.cut()
  await send(5)
  await own.ingest(idle.id, { id: 'x' })
  await untilAll()
  await until('nothing of the quiet one is lost', () => quiet.stdout === '{"id":"x"}\n')
  await own.kill()
  await own.start()
  await send(5)
  await untilAll()
  t.strictSame(
    idsOf(tail.stdout),
    Array.from({ length: sent - first }, (_, n) => first + n),
  )
  t.match(tail.stderr, /connected again, continuing after \d+/)
})

t.test('a 408 of a gateway is repeated once the tail has begun, and nothing is lost', async (t) => {
  const gateway = await startGateway(daemon.url)
  t.teardown(() => gateway.stop())
  const throughGateway = { ...env, PIPECTL_URL: gateway.url }
  const pipe = await newPipe()
  gateway.respondTo('/tail', 408, 1)
  const first = await runCli(['tail', pipe.name], { env: throughGateway })
  t.match(first, { code: 1, stderr: /408/ }, 'a first connection that fails is an error')
  const tail = startTail(t, [pipe.name], throughGateway)
  let sent = 0
  await until('it follows', async () => {
    await daemon.ingest(pipe.id, { id: sent++ })
    return tail.stdout !== ''
  })
  const start = idsOf(tail.stdout)[0]!
  gateway.respondTo('/tail', 408, 2)
  gateway.cut()
  for (let n = 0; n < 5; n += 1) await daemon.ingest(pipe.id, { id: sent++ })
  await until('all came', () => idsOf(tail.stdout).length >= sent - start)
  t.strictSame(
    idsOf(tail.stdout),
    Array.from({ length: sent - start }, (_, n) => start + n),
  )
  t.equal(tail.stderr.match(/408.*; trying again in \d+ s/g)?.length, 2, tail.stderr)
})

t.test('the ninth of a workspace is told what to do', async (t) => {
  const own = await startDaemon()
  t.teardown(() => own.close())
  const pipe = await newPipe(own)
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  for (let n = 0; n < 8; n += 1)
    await fetch(`${own.url}/v1/pipes/${pipe.id}/tail`, {
      headers: { authorization: `Bearer ${own.apiKey}` },
      signal: stop.signal,
    })
  const ninth = await runCli(['tail', pipe.name], { env: cliEnv(own, home) })
  t.match(ninth, { code: 1, stderr: /at most 8.*\n.*next: close a live tail/ })
})
