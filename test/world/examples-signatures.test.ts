/**
 * The receivers of examples/, each in its language: they take what the real daemon has signed, and nothing else. A request
 * of the daemon's is also caught on its way and sent again, as it was and changed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import t from 'tap'
import { request } from 'undici'
import { cleanEnv, startDaemon } from '../support/daemon.ts'
import { freePort } from '../support/free-port.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { openLanguages } from '../support/languages.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon()
const sink = await startHttpSink()
const languages = openLanguages()
const running: ChildProcess[] = []
t.teardown(async () => {
  for (const child of running) child.kill('SIGKILL')
  languages.close()
  await sink.stop()
  await daemon.close()
})

const secretOf = (letter: string) => `whsec_${Buffer.from(letter.repeat(32)).toString('base64')}`
const secret = secretOf('s')
const other = secretOf('o')

/** The address of a receiver that listens. */
async function start(file: string, signingSecret: string): Promise<string> {
  const port = await freePort()
  const [program = '', ...args] = await languages.commandOf(`verify-signature/${file}`)
  const server = file.endsWith('.php') ? ['-S', `127.0.0.1:${port}`] : []
  const env = cleanEnv({
    PIPECTL_SIGNING_SECRET: signingSecret,
    PORT: String(port),
    PYTHONDONTWRITEBYTECODE: '1',
  })
  const child = spawn(program, [...server, ...args], { env, stdio: 'ignore' })
  running.push(child)
  const url = `http://127.0.0.1:${port}/`
  await until(`${file} listens`, async () => {
    if (child.exitCode !== null) throw new Error(`${file} ended with ${child.exitCode}`)
    const { statusCode, body } = await request(url, { method: 'POST', body: '{}' })
    await body.dump()
    return statusCode
  })
  return url
}

let made = 0

/** A pipe that delivers to this address, and what its lane says of one record. */
async function deliver(url: string, signing_secret: string, record = '{"n":1,"text":"é"}') {
  const pipeId = await daemon.createPipe({ pipe_name: `signed${made++}`, pipe_add_ingest_ts: false })
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url, signing_secret },
  })
  await daemon.ingest(pipeId, record)
  return await until('it was delivered, or rejected', async () => {
    const lane = await daemon.lane(pipeId, id)
    return Number(lane.delivered_records) > 0 || lane.last_error !== null ? lane : null
  })
}

/** Sends as the daemon does to an endpoint whose secret is being changed. */
await deliver(`${sink.url}/hook`, `${other} ${secret}`)
const real = sink.deliveries[0]!
const realHeaders = {
  'content-type': 'application/json',
  'webhook-id': String(real.headers['webhook-id']),
  'webhook-timestamp': String(real.headers['webhook-timestamp']),
  'webhook-signature': String(real.headers['webhook-signature']),
}

function sign(
  timestamp: number | string,
  by = secret,
  id = 'msg_1',
  body = real.text,
): Record<string, string> {
  const key = Buffer.from(by.replace('whsec_', ''), 'base64')
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    ...realHeaders,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${digest}`,
  }
}
const now = Math.floor(Date.now() / 1000)
const { 'webhook-signature': signature, ...unsigned } = realHeaders
const [byOther = '', bySecret = ''] = signature.split(' ')
const { 'webhook-id': _id, ...withoutId } = realHeaders
const { 'webhook-timestamp': _timestamp, ...withoutTimestamp } = realHeaders

const genuine: [string, Record<string, string>][] = [
  ['as it came: one of two signatures is by this secret', realHeaders],
  ['that signature alone', { ...realHeaders, 'webhook-signature': bySecret }],
  ['four minutes old', sign(now - 240)],
  ['four minutes ahead', sign(now + 240)],
]
const forged: [string, Record<string, string>, string?][] = [
  ['another body', realHeaders, real.text.replace('1', '2')],
  ['more of a body', realHeaders, `${real.text} `],
  ['no body', realHeaders, ''],
  ['another id', { ...realHeaders, 'webhook-id': 'msg_1' }],
  [
    'another time',
    { ...realHeaders, 'webhook-timestamp': String(Number(realHeaders['webhook-timestamp']) + 1) },
  ],
  ['another secret', { ...realHeaders, 'webhook-signature': byOther }],
  ['six minutes old', sign(now - 360)],
  ['six minutes ahead', sign(now + 360)],
  ['a time that is none', sign('soon')],
  ['a time with more behind it', sign(`${now}x`)],
  ['an empty time', sign('')],
  ['no time', withoutTimestamp],
  ['no id', withoutId],
  ['an empty id', sign(now, secret, '')],
  ['an empty secret', sign(now, '')],
  ['no signature', unsigned],
  ['an empty signature', { ...realHeaders, 'webhook-signature': '' }],
  ['an empty signature of the version', { ...realHeaders, 'webhook-signature': 'v1,' }],
  ['another version', { ...realHeaders, 'webhook-signature': bySecret.replace('v1', 'v2') }],
  ['without its version', { ...realHeaders, 'webhook-signature': bySecret.replace('v1,', '') }],
  ['half of it', { ...realHeaders, 'webhook-signature': bySecret.slice(0, 20) }],
  ['something else', { ...realHeaders, 'webhook-signature': 'v1,é !' }],
]

for (const file of ['receive.mjs', 'receive.py', 'receive.go', 'receive.php']) {
  t.test(file, async (t) => {
    const url = await start(file, secret)
    const good = await deliver(url, secret)
    t.same([good.delivered_records, good.last_error], [1, null], 'the daemon delivers to it')
    const bad = await deliver(url, other)
    t.match(bad, { delivered_records: 0, last_error: { code: 'http_401' } }, 'and not with another secret')

    const post = async (headers: Record<string, string>, body: string | Buffer = real.body) => {
      const answer = await request(url, { method: 'POST', headers, body })
      await answer.body.dump()
      return answer.statusCode
    }
    for (const [what, headers] of genuine) t.equal(await post(headers), 204, what)
    for (const [what, headers, body] of forged) t.equal(await post(headers, body), 401, what)
  })

  t.test(`${file} does nothing without a secret`, async (t) => {
    // PHP's server starts, and every request fails.
    if (file.endsWith('.php')) {
      const answer = await request(await start(file, 'whsec_'), {
        method: 'POST',
        headers: sign(now, 'whsec_'),
        body: real.body,
      })
      t.equal(answer.statusCode, 500)
      await answer.body.dump()
      return
    }
    const [program = '', ...args] = await languages.commandOf(`verify-signature/${file}`)
    const child = spawn(program, args, {
      env: cleanEnv({ PIPECTL_SIGNING_SECRET: 'whsec_' }),
      stdio: 'ignore',
    })
    running.push(child)
    const [code] = await once(child, 'exit')
    t.equal(code, 1)
  })
}
