/**
 * A destination's error text reaches the log, the API, terminals and backups: short, printable, without our secrets.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { DeliveryError, noProgress } from '../../../src/destinations/driver.ts'
import { checkDestination, openDriver, secretsOf } from '../../../src/destinations/drivers.ts'
import { withoutSecrets } from '../../../src/destinations/error-text.ts'
import { responseError } from '../../../src/destinations/http-endpoint/response.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'

const hostile = '\u0000\u0007\u001b[31m\u009b\r\n\u2028\u2029\u202e\u2066\u200b\ud800\u{e0001}'

t.test('control characters, line breaks and bidi controls never get into an error', async (t) => {
  const error = new DeliveryError('permanent', `co${hostile}de`, `it said ${hostile} so`)
  for (const text of [error.code, error.message]) t.notMatch(text, /[\p{C}\p{Zl}\p{Zp}]/u)
  t.match(error.message, /^it said +\[31m +so$/)
  t.notMatch(error.code, /\s/)
  t.equal(new DeliveryError('permanent', 'c', 'größer 日本 🦊').message, 'größer 日本 🦊', 'other texts stay')
})

t.test('a message has at most 1 KB and a code 64 characters, however much was sent', async (t) => {
  for (const filling of ['x', 'é', '日', '🦊']) {
    const error = new DeliveryError('transient', filling.repeat(5_000_000), filling.repeat(5_000_000))
    t.ok(Buffer.byteLength(error.message) <= 1024, filling)
    t.ok(error.code.length <= 64, filling)
    t.ok(error.message.endsWith(`${filling}…`), 'cut between characters')
    t.equal(error.with({ failedSeq: 1 }).message, error.message, 'once is enough')
  }
})

t.test('secrets are taken out, one that the cut went through too', async (t) => {
  const secret = 'correct-horse-battery'
  t.equal(withoutSecrets(`a ${secret} b ${secret}`, [secret]), 'a [redacted] b [redacted]')
  t.equal(withoutSecrets('abc', ['abc', '']), 'abc', 'too short for a secret')
  t.equal(withoutSecrets('inner-and-outer', ['inner', 'inner-and-outer']), '[redacted]', 'the longest first')
  for (let kept = 4; kept < secret.length; kept++) {
    const text = `${'.'.repeat(1021 - kept)}${secret} and more than fits`
    const { message } = new DeliveryError('permanent', 'x', text).scrubbed([secret])
    t.notMatch(message, secret.slice(0, 4), `${kept} characters before the cut`)
  }
  t.equal(withoutSecrets('it said corre… and more', [secret]), 'it said [redacted]… and more')
  const [odd] = ['tab\there\u2028and there']
  t.match(new DeliveryError('permanent', 'x', `say ${odd}`).scrubbed([odd]).message, /^say \[redacted\]$/)
})

t.test('every type names its secrets', async (t) => {
  const database = makeSpec('destination_database', { host: 'h', password: 'pw-secret' })
  t.strictSame(secretsOf(database), ['pw-secret'])
  const store = makeSpec('destination_object_store', {
    bucket: 'b',
    access_key: 'AKIA1',
    secret_key: 'sk-secret',
    session_token: 'st-secret',
  })
  t.strictSame(secretsOf(store).sort(), ['AKIA1', 'sk-secret', 'st-secret'])
  const endpoint = makeSpec('destination_http_endpoint', {
    url: 'https://user:url-secret@h.example/p?token=query-secret',
    auth_header: 'Bearer auth-secret',
    headers: { 'x-plain': 'header-value' },
    secret_headers: { 'x-key': 'secret-header' },
    signing_secret: 'whsec_one whsec_two',
  })
  const found = secretsOf(endpoint)
  for (const value of [
    'url-secret',
    'query-secret',
    'auth-secret',
    'header-value',
    'secret-header',
    'whsec_one',
    'whsec_two',
  ])
    t.ok(found.includes(value), value)
})

async function startEcho(
  test: { teardown(fn: () => unknown): unknown },
  answer: (heard: string) => string,
): Promise<number> {
  const server = http.createServer((request, response) => {
    const heard = JSON.stringify(request.headers)
    response.writeHead(400, { 'content-type': 'application/xml' })
    response.end(answer(heard))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  test.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

t.test('a store that echoes the request does not get its credentials into an error or a check', async (t) => {
  const xml = (heard: string) =>
    `<Error><Code>Bad</Code><Message>${heard.replaceAll(/[<&]/g, '')}</Message></Error>`
  const port = await startEcho(t, xml)
  const spec = makeSpec('destination_object_store', {
    bucket: 'b',
    endpoint: `http://127.0.0.1:${port}`,
    access_key: 'AKIA-CANARY',
    secret_key: 'sk-canary',
    session_token: 'st-canary-token',
  })
  const driver = openDriver(spec, openSettings, anyKey)
  t.teardown(() => driver.close())
  const error = await driver.deliver(makeBatch([[{ a: 1 }]]), never).then(
    () => null,
    (reason: unknown) => reason,
  )
  t.ok(error instanceof DeliveryError)
  if (!(error instanceof DeliveryError)) return
  t.match(error.message, /\[redacted\]/, 'the echo was heard')
  t.notMatch(JSON.stringify([error.message, error.code, error.cause]), /AKIA-CANARY|sk-canary|st-canary/)
  const checks = await checkDestination(spec, openSettings, never, null)
  t.notMatch(JSON.stringify(checks), /AKIA-CANARY|sk-canary|st-canary/)
})

t.test("an endpoint's markup is left out in one pass", async (t) => {
  const shown = (excerpt: string) => responseError({ status: 400, headers: {}, excerpt }, 0)?.message
  t.match(
    shown('<html><style>p{}</style><p>No <b>such</b> thing</p><script>x()</script> here'),
    /Response: No such thing here$/,
  )
  t.match(shown('1 < 2 and no more'), /Response: 1 < 2 and no more$/)
  t.match(shown('<script>never closed'), /responded 400\.$/)
})

t.test('a driver that sends record by record is told how far it is', async (t) => {
  const server = http.createServer((request, response) => request.resume().on('end', () => response.end()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const config = { url: `http://127.0.0.1:${port}/`, body_format: 'json_object' }
  const driver = openDriver(makeSpec('destination_http_endpoint', config), openSettings, anyKey)
  t.teardown(() => driver.close())
  const stored: number[] = []
  let waits = 0
  await driver.deliver(makeBatch([[{ a: 1 }, { a: 2 }, { a: 3 }]]), never, {
    ...noProgress,
    beforeRequest: async () => {
      waits += 1
    },
    stored: (records) => stored.push(records),
  })
  t.strictSame(stored, [1, 2, 3])
  t.equal(waits, 2, 'the destination keeps its rate')
})

t.test('what is kept of an error does not keep the megabytes that it was cut from', async (t) => {
  const megabytes = (index: number) => Buffer.alloc(4 * 1024 * 1024, `error ${index} `).toString()
  const heldWith = (keep: (text: string) => string) => {
    collectGarbage()
    const before = process.memoryUsage().heapUsed
    const kept = Array.from({ length: 10 }, (_, index) => keep(megabytes(index)))
    collectGarbage()
    t.equal(kept.length, 10)
    return process.memoryUsage().heapUsed - before
  }
  t.ok(heldWith((text) => text.slice(0, 1_000)) > 30e6, 'a part of a text does (negative control)')
  t.ok(heldWith((text) => new DeliveryError('transient', 'long', text).message) < 10e6)
  t.ok(heldWith((text) => new DeliveryError('transient', text, 'code').code) < 10e6)
})

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}
