/** A rogue HTTP endpoint, or a server that is none: whatever it sends and whenever, the attempt ends with a DeliveryError. */
import net from 'node:net'
import t from 'tap'
import type { HttpEndpointSpec } from '../../../src/destinations/driver.ts'
import { checkDestination, openDriver } from '../../../src/destinations/drivers.ts'
import { anyKey, makeBatch, makeSpec, openSettings } from '../../support/batches.ts'
import { openDescriptors } from '../../support/rogue/client-sockets.ts'
import { startElsewhere } from '../../support/rogue/elsewhere.ts'
import { handshakeFaults, head, honestHttp, httpFaults, response } from '../../support/rogue/http.ts'
import {
  attempt,
  brokenRules,
  checkFaults,
  checkPresentable,
  checkRandomFaults,
  faultsOfText,
  watchForUncaught,
} from '../../support/rogue/rogue-attempts.ts'
import { commonFaults, type Fault, honestly, startRogue } from '../../support/rogue/rogue-server.ts'
import { until } from '../../support/until.ts'

const uncaught = watchForUncaught()
// The servers' certificates are their own; what is tested is what comes after them.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'

const secrets = [
  'bearer-token-word',
  'secret-header-word',
  'query-secret-word',
  'c2lnbmluZy1zZWNyZXQtb2YtMjQtYnl0ZXMh',
]
const [token, header, query, signing] = secrets
const spec = (url: string, config: Record<string, unknown> = {}): HttpEndpointSpec =>
  makeSpec('destination_http_endpoint', {
    url: `${url}/in?key=${query}`,
    auth_header: `Bearer ${token}`,
    secret_headers: { 'x-token': header },
    signing_secret: `whsec_${signing}`,
    timeout_ms: 1000,
    ...config,
  })
const open = (port: number, config: Record<string, unknown> = {}) =>
  openDriver(spec(`http://127.0.0.1:${port}`, config), openSettings, anyKey)

const elsewhere = await startElsewhere()
t.teardown(() => elsewhere.close())

const faults = {
  ...commonFaults,
  ...httpFaults({ elsewhere: elsewhere.url, secrets }),
}
/** Those that do not end in silence, and so take no time. */
const lively = Object.fromEntries(
  Object.entries(faults).filter(([name]) => !/silent|stays|the status|without end/.test(name)),
)
/** The endpoint's own timeout_ms ends an attempt. */
const patienceMs = 60_000
const target = { session: honestHttp, open, batch: makeBatch([[{ v: 'x' }]]), secrets, patienceMs }
const tlsTarget = {
  ...target,
  host: '127.0.0.2',
  open: (port: number) => openDriver(spec(`https://127.0.0.2:${port}`), openSettings, anyKey),
}
/** One request for each record, two at a time. */
const recordsTarget = {
  ...target,
  open: (port: number) =>
    openDriver(
      { ...spec(`http://127.0.0.1:${port}`, { body_format: 'json_object' }), concurrency: 2 },
      openSettings,
      anyKey,
    ),
  batch: makeBatch([
    [{ v: 1 }, { v: 2 }],
    [{ v: 3 }, { v: 4 }],
  ]),
}

t.test(
  'negative control: the honest server takes the batch, and what breaks a rule is noticed',
  async (t) => {
    t.same(await brokenRules(target, 99, honestly, patienceMs), [])
    t.same(await brokenRules(tlsTarget, 99, honestly, patienceMs), [])
    const sayIt = faults['the secrets'] ?? honestly
    const careless = (port: number) => {
      const driver = open(port)
      return {
        ...driver,
        deliver: (...args: Parameters<typeof driver.deliver>) =>
          driver.deliver(...args).catch(() => Promise.reject(new Error(`\u001b ${token}`))),
      }
    }
    t.match(await brokenRules({ ...target, open: careless }, 0, sayIt), [/no DeliveryError/])
    const leaving = (port: number) => {
      const driver = open(port)
      const close = async () => {
        net.connect(port, '127.0.0.1').on('error', () => {})
        await driver.close()
      }
      return { ...driver, close }
    }
    t.match(await brokenRules({ ...target, open: leaving, closingMs: 500 }, 99, honestly), [/left over/])
  },
)

const descriptors = openDescriptors()

t.test('every fault', async (t) => {
  t.ok(Object.keys(faults).length >= 50)
  await checkFaults(t, target, 0, 'response', faults)
})

t.test('every fault at the second of two requests under way', async (t) => {
  await checkFaults(t, recordsTarget, 1, 'second record', lively)
})

t.test('a server behind TLS that misbehaves, during the handshake and after it', async (t) => {
  await checkFaults(t, tlsTarget, 0, 'response over TLS', lively)
  const session = () => ({ ...honestHttp(), answer: () => [response('400 No')] })
  const handshake = async ([name, fault]: [string, Fault]) => {
    const rogue = await startRogue(session, 0, fault)
    const driver = openDriver(spec(`https://127.0.0.1:${rogue.port}`), openSettings, anyKey)
    checkPresentable(t, name, await attempt(driver, target.batch, patienceMs), secrets)
    await until(`${name}: the connection is closed`, () => rogue.open() === 0)
    await rogue.stop()
  }
  await Promise.all(Object.entries(handshakeFaults).map(handshake))
})

t.test('closing the driver ends a TLS handshake that is not answered', async (t) => {
  const rogue = await startRogue(honestHttp, 0, faults['is silent'] ?? honestly)
  t.teardown(() => rogue.stop())
  const driver = openDriver(spec(`https://127.0.0.1:${rogue.port}`), openSettings, anyKey)
  const outcome = driver.deliver(target.batch, AbortSignal.timeout(patienceMs)).catch((error) => error)
  await until('the greeting is there', () => rogue.heard() !== '')
  const openBefore = rogue.open()
  await driver.close()
  // The connection's own limit is 10 s.
  await until('the connection is closed', () => rogue.open() === 0, { timeoutMs: 8_000 })
  t.equal(openBefore, 1)
  t.match(await outcome, { class: 'transient' })
})

t.test('random faults', async (t) => {
  await checkRandomFaults(t, target, 1)
})

t.test('what the lane says', async (t) => {
  const said: Record<string, RegExp> = {
    'closes at once': /^transient UND_ERR_SOCKET/,
    'resets the connection': /^transient ECONNRESET/,
    'is cut in the status': /^transient UND_ERR_SOCKET/,
    'is cut before the end of the headers': /^transient UND_ERR_SOCKET/,
    'is cut in the body': /^delivered/,
    'is cut in the body of an error': /^transient http_500.*begun/,
    'is cut after a 103': /^transient UND_ERR_SOCKET/,
    'a reason without end': /^transient /,
    'headers without end': /^transient UND_ERR_HEADERS_OVERFLOW/,
    'a value of a header without end': /^transient /,
    '100 without end': /^transient /,
    '103 without end': /^transient response_too_large.*8 MiB/,
    'a body of an error without end': /^transient http_500/,
    'two lengths': /^transient (protocol_error|UND_ERR_RES_CONTENT_LENGTH_MISMATCH)/,
    'a length of letters': /^transient protocol_error.*not an HTTP response/,
    'the status "999"': /^transient http_999/,
    'the status "2x0"': /^transient protocol_error.*not an HTTP response/,
    'the status "304 Not Modified"': /^permanent http_304/,
    'HTTP/0.9': /^transient protocol_error.*not an HTTP response/,
    'speaks SSH': /^transient protocol_error.*not an HTTP response/,
    'an upgrade nobody asked for': /^transient /,
    'a redirect by 307': /^permanent http_307.*not followed/,
    'a redirect to a file': /^permanent http_302/,
    'an error of 10 MB': /^permanent http_400/,
    'ten thousand headers': /^transient UND_ERR_HEADERS_OVERFLOW/,
    'a bomb of gzip': /^permanent http_400/,
    'a bomb of gzip that says it is stored': /^delivered/,
    'a pause of three hundred years': /^transient http_503/,
    'the secrets': /^permanent http_400.*\[redacted\]/,
  }
  for (const [name, expected] of Object.entries(said)) {
    const fault: Fault | undefined = faults[name]
    if (fault === undefined) throw new Error(`no fault "${name}"`)
    const rogue = await startRogue(honestHttp, 0, fault)
    const outcome = await attempt(open(rogue.port, { timeout_ms: 60_000 }), target.batch, patienceMs)
    const { class: errorClass, code, message } = Object(outcome)
    t.match(outcome === 'delivered' ? outcome : `${errorClass} ${code} ${message}`, expected, name)
    await rogue.stop()
  }
})

t.test('timeout_ms ends a request at a server that is silent, or sends something now and then', async (t) => {
  const dripping: Fault = (socket) => {
    const timer = setInterval(() => socket.write(head('102 Processing')), 50)
    socket.on('close', () => clearInterval(timer))
  }
  for (const fault of [faults['is silent'] ?? honestly, dripping]) {
    const rogue = await startRogue(honestHttp, 0, fault)
    t.match(await attempt(open(rogue.port), target.batch, patienceMs), {
      code: 'timeout',
      timedOut: 'unknown',
    })
    await rogue.stop()
  }
})

t.test('timeout_ms ends an attempt at a server that never answers the TLS greeting', async (t) => {
  const rogue = await startRogue(honestHttp, 0, faults['is silent'] ?? honestly)
  t.teardown(() => rogue.stop())
  const driver = openDriver(spec(`https://127.0.0.1:${rogue.port}`), openSettings, anyKey)
  let outcome: unknown
  void attempt(driver, target.batch, patienceMs).then((value) => {
    outcome = value
  })
  // The connection's own limit is 10 s.
  await until('the attempt is over', () => outcome, { timeoutMs: 8_000 })
  t.match(outcome, { code: 'timeout', timedOut: 'unknown' })
})

t.test('test of a destination: every fault is a result', async (t) => {
  for (const [name, fault] of Object.entries(lively)) {
    const rogue = await startRogue(honestHttp, 0, fault)
    const limit = AbortSignal.timeout(patienceMs)
    const [check] = await checkDestination(spec(`http://127.0.0.1:${rogue.port}`), openSettings, limit, null)
    t.same(faultsOfText(check?.message ?? '', secrets), [], name)
    await rogue.stop()
  }
})

t.test('nothing is left over, nobody was led elsewhere, nothing reached the process', async (t) => {
  await until('no descriptor is left over', () => openDescriptors() <= descriptors)
  t.equal(elsewhere.visits(), 0)
  t.strictSame(
    uncaught.map((error) => (error instanceof Error ? error.stack : error)),
    [],
  )
})
