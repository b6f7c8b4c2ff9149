/** A rogue nats-server, or a server that is none: whatever it sends and whenever, the attempt ends with a DeliveryError. */
import t from 'tap'
import type { NatsSpec } from '../../../src/destinations/driver.ts'
import { checkDestination, openDriver } from '../../../src/destinations/drivers.ts'
import { anyKey, makeBatch, makeSpec, openSettings } from '../../support/batches.ts'
import { openDescriptors } from '../../support/rogue/client-sockets.ts'
import { startElsewhere } from '../../support/rogue/elsewhere.ts'
import { handshakeFaults } from '../../support/rogue/http.ts'
import { honestNats, natsFaults } from '../../support/rogue/nats.ts'
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
const secrets = ['hidden-word-of-the-user', 'covert-value-of-a-header']
const [password, header] = secrets
const spec = (port: number, config: Record<string, unknown> = {}): NatsSpec =>
  makeSpec('destination_nats', {
    url: `nats://127.0.0.1:${port}`,
    subject: 'events',
    username: 'loader',
    password,
    headers: { 'x-source': header },
    timeout_ms: 1000,
    ...config,
  })
const open = (port: number) => openDriver(spec(port), openSettings, anyKey)
const openTls = (port: number, host = '127.0.0.2') =>
  openDriver(spec(port, { url: `tls://${host}:${port}`, tls_verify: false }), openSettings, anyKey)

const elsewhere = await startElsewhere()
t.teardown(() => elsewhere.close())

const faults = {
  ...commonFaults,
  ...natsFaults({ elsewhere: new URL(elsewhere.url).host, secrets }),
}
/** Those that do not end in silence, and so take no time. */
const lively = Object.fromEntries(
  Object.entries(faults).filter(([name]) =>
    /^(-ERR|a greeting|an answer|an error|a message|is cut|closes|speaks)/.test(name),
  ),
)
const target = { session: () => honestNats(), open, batch: makeBatch([[{ v: 'x' }, { v: 'y' }]]), secrets }
const tlsTarget = {
  ...target,
  session: () => honestNats({ tls: true }),
  host: '127.0.0.2',
  open: (port: number) => openTls(port),
}

t.test(
  'negative control: the honest server takes the batch, and what breaks a rule is noticed',
  async (t) => {
    t.same(await brokenRules(target, 99, honestly), [])
    t.same(await brokenRules(tlsTarget, 99, honestly), [])
    const careless = (port: number) => {
      const driver = open(port)
      return {
        ...driver,
        deliver: (...args: Parameters<typeof driver.deliver>) =>
          driver.deliver(...args).catch(() => Promise.reject(new Error(`\u001b ${password}`))),
      }
    }
    t.match(await brokenRules({ ...target, open: careless }, 1, faults['closes at once'] ?? honestly), [
      /no DeliveryError/,
    ])
  },
)

const descriptors = openDescriptors()

for (const [step, name] of ['greeting', 'log-in', 'first record', 'second record'].entries())
  t.test(`every fault at the ${name}`, async (t) => {
    t.ok(Object.keys(faults).length >= 60)
    await checkFaults(t, target, step, name, faults)
  })

t.test('a server behind TLS that misbehaves, after the handshake and during it', async (t) => {
  await checkFaults(t, tlsTarget, 0, 'log-in over TLS', lively)
  await checkFaults(t, tlsTarget, 1, 'record over TLS', lively)
  const handshake = async ([name, fault]: [string, Fault]) => {
    const begin: Fault = (socket, honest, heard) => {
      socket.write(honest)
      socket.once('data', () => fault(socket, honest, heard))
    }
    const rogue = await startRogue(() => honestNats({ tls: true }), 0, begin)
    const driver = open(rogue.port)
    checkPresentable(t, name, await attempt(driver, target.batch), secrets)
    await until(`${name}: the connection is closed`, () => rogue.open() === 0)
    await rogue.stop()
  }
  await Promise.all(Object.entries(handshakeFaults).map(handshake))
})

t.test('what is said before TLS in the clear is not taken for said under it', async (t) => {
  const early: Fault = (socket, honest) => void socket.write(Buffer.concat([honest, Buffer.from('PONG\r\n')]))
  const rogue = await startRogue(() => honestNats({ tls: true }), 0, early)
  t.teardown(() => rogue.stop())
  t.match(await attempt(openTls(rogue.port, '127.0.0.1'), target.batch), {
    class: 'transient',
    code: 'protocol_error',
  })
  t.notMatch(rogue.heard(), password ?? '')
})

t.test('random faults', async (t) => {
  await checkRandomFaults(t, target, 4)
})

t.test('what the lane says', async (t) => {
  const said: Record<string, [step: number, text: RegExp]> = {
    'closes at once': [0, /^transient ECONNRESET/],
    'speaks HTTP': [0, /^transient protocol_error.*protocol of NATS/],
    '-ERR Authorization Violation': [1, /^permanent authorization_violation.*check username and password/],
    '-ERR Permissions Violation for Publish to "x"': [2, /^permanent permissions_violation/],
    '-ERR Stale Connection': [2, /^transient nats_error.*Stale Connection/],
    '-ERR Maximum Payload Violation': [2, /^transient max_payload/],
    'an error of the secrets': [1, /^transient nats_error.*\[redacted\]/],
    'a greeting of 100 KB': [0, /^transient protocol_error/],
    'messages of no bytes': [0, /^transient protocol_error/],
    'a greeting of 60 KB': [0, /^(delivered|transient)/],
    'PING without end': [1, /^transient (response_too_large|timeout)|^delivered/],
    'answers to nobody without end': [2, /^transient (response_too_large.*8 MiB|timeout)|^delivered/],
    'nobody listens': [2, /^transient no_stream/],
    'an answer that is no JSON': [2, /^transient protocol_error.*not an acknowledgement/],
    'an answer of the secrets': [2, /^transient jetstream_1.*\[redacted\]/],
    'a full stream': [2, /^transient jetstream_10077.*maximum bytes exceeded/],
    'is silent': [2, /^transient (aborted|timeout)/],
  }
  for (const [name, [step, expected]] of Object.entries(said)) {
    const fault = faults[name]
    if (fault === undefined) throw new Error(`no fault "${name}"`)
    const rogue = await startRogue(() => honestNats(), step, fault)
    const outcome = await attempt(open(rogue.port), target.batch, 20_000)
    const { class: errorClass, code, message } = Object(outcome)
    t.match(outcome === 'delivered' ? outcome : `${errorClass} ${code} ${message}`, expected, name)
    await rogue.stop()
  }
})

t.test('an acknowledgement of another stream than the config names does not count', async (t) => {
  const named = async (stream: string) => {
    const rogue = await startRogue(() => honestNats(), 99, honestly)
    t.teardown(() => rogue.stop())
    return await attempt(openDriver(spec(rogue.port, { stream }), openSettings, anyKey), target.batch)
  }
  t.equal(await named('EVENTS'), 'delivered')
  t.match(await named('OTHER'), { class: 'permanent', code: 'other_stream', message: /EVENTS/ })
})

t.test('test of a destination: every fault is a result', async (t) => {
  const check = async ([name, fault]: [string, Fault]) => {
    for (const step of [0, 1, 2]) {
      const rogue = await startRogue(() => honestNats(), step, fault)
      const checks = await checkDestination(spec(rogue.port), openSettings, AbortSignal.timeout(1_000), null)
      for (const { message } of checks) t.same(faultsOfText(message, secrets), [], name)
      await rogue.stop()
    }
  }
  await Promise.all(Object.entries(lively).map(check))
})

t.test('nothing is left over, nobody was led elsewhere, nothing reached the process', async (t) => {
  await until('no descriptor is left over', () => openDescriptors() <= descriptors)
  t.equal(elsewhere.visits(), 0)
  t.strictSame(
    uncaught.map((error) => (error instanceof Error ? error.stack : error)),
    [],
  )
})
