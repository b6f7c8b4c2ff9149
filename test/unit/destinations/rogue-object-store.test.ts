/** A rogue object store, or a server that is none: whatever it sends and whenever, the attempt ends with a DeliveryError. */
import t from 'tap'
import {
  DeliveryError,
  type DestinationDriver,
  type ObjectStoreSpec,
} from '../../../src/destinations/driver.ts'
import { checkDestination, openDriver, secretsOf } from '../../../src/destinations/drivers.ts'
import { openObjectStore } from '../../../src/destinations/object-store/driver.ts'
import { anyKey, makeBatch, makeSpec, openSettings } from '../../support/batches.ts'
import { openDescriptors } from '../../support/rogue/client-sockets.ts'
import { startElsewhere } from '../../support/rogue/elsewhere.ts'
import { httpFaults } from '../../support/rogue/http.ts'
import { honestStore, steps, storeFaults } from '../../support/rogue/object-store.ts'
import {
  attempt,
  brokenRules,
  checkFaults,
  checkRandomFaults,
  faultsOfText,
  watchForUncaught,
} from '../../support/rogue/rogue-attempts.ts'
import { commonFaults, type Fault, honestly, startRogue } from '../../support/rogue/rogue-server.ts'
import { until } from '../../support/until.ts'

const uncaught = watchForUncaught()
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'

const secrets = ['AKIDACCESSKEYWORD', 'secret-key-word', 'session-token-word']
const spec = (endpoint: string): ObjectStoreSpec =>
  makeSpec('destination_object_store', {
    endpoint,
    bucket: 'b',
    region: 'us-east-1',
    access_key: secrets[0],
    secret_key: secrets[1],
    session_token: secrets[2],
    compression: 'none',
  })
const open = (port: number) => openDriver(spec(`http://127.0.0.1:${port}`), openSettings, anyKey)
/** The object goes in three parts. */
const openInParts = (port: number): DestinationDriver => {
  const one = spec(`http://127.0.0.1:${port}`)
  const driver = openObjectStore(one, openSettings, { aboveBytes: 20_000, partBytes: 10_000 })
  return {
    close: () => driver.close(),
    async deliver(batch, signal) {
      await driver.deliver(batch, signal).catch((error: unknown) => {
        throw error instanceof DeliveryError ? error.scrubbed(secretsOf(one)) : error
      })
    },
  }
}

const elsewhere = await startElsewhere()
t.teardown(() => elsewhere.close())
const place = { elsewhere: elsewhere.url, secrets }

const ofStores = storeFaults(place)
const faults: Record<string, Fault> = { ...commonFaults, ...httpFaults(place), ...ofStores }
/** Those that do not end in silence, and so take no time. */
const lively = Object.fromEntries(
  Object.entries(ofStores).filter(([name]) => !/without end|million|15 MB|with 400/.test(name)),
)
const target = { session: honestStore, open, batch: makeBatch([[{ v: 'x' }]]), secrets }
const partsTarget = { ...target, open: openInParts, batch: makeBatch([[{ v: 'x'.repeat(25_000) }]]) }
const tlsTarget = {
  ...target,
  host: '127.0.0.2',
  open: (port: number) => openDriver(spec(`https://127.0.0.2:${port}`), openSettings, anyKey),
}

t.test('negative control: the honest server takes the object, whole and in parts', async (t) => {
  t.same(await brokenRules(target, 99, honestly, 30_000), [])
  t.same(await brokenRules(partsTarget, 99, honestly, 30_000), [])
  t.same(await brokenRules(tlsTarget, 99, honestly, 30_000), [])
  const careless = (port: number) => {
    const driver = open(port)
    const deliver: DestinationDriver['deliver'] = (...args) =>
      driver.deliver(...args).catch(() => Promise.reject(new DeliveryError('transient', 'x', secrets.join())))
    return { ...driver, deliver }
  }
  const broken = await brokenRules({ ...target, open: careless }, 0, ofStores['no XML'] ?? honestly)
  t.match(broken, [/AKIDACCESSKEYWORD/])
})

const descriptors = openDescriptors()

t.test('every fault', async (t) => {
  t.ok(Object.keys(ofStores).length >= 50)
  await checkFaults(t, target, steps.put, 'put', faults)
})

t.test('faults at each step of an object in parts', async (t) => {
  const ofUploads = Object.fromEntries(
    Object.entries(lively).filter(([name]) => /upload|completion|ETag|with 200|clock|credentials/.test(name)),
  )
  for (const step of ['begin', 'complete'] as const)
    await checkFaults(t, partsTarget, steps[step], step, { ...commonFaults, ...ofUploads })
  await checkFaults(t, partsTarget, steps.part, 'part', commonFaults)
})

t.test('a server behind TLS that misbehaves', async (t) => {
  await checkFaults(t, tlsTarget, steps.put, 'put over TLS', commonFaults)
})

t.test('random faults, at every step', async (t) => {
  await checkRandomFaults(t, partsTarget, 4)
})

t.test('what the lane says', async (t) => {
  const said: [step: number, fault: string, expected: RegExp][] = [
    [steps.put, 'closes at once', /^transient ECONNRESET/],
    [steps.put, 'an upgrade nobody asked for', /^transient ECONNRESET/],
    [steps.put, 'speaks SSH', /^transient HPE_.*not an HTTP response/],
    [steps.put, 'headers without end', /^transient HPE_HEADER_OVERFLOW/],
    [steps.put, 'is cut in the body', /^transient /],
    [steps.put, 'text without end', /^transient response_too_large.*64 KiB/],
    [steps.put, 'a million types of document', /^transient response_too_large/],
    [steps.put, 'XML twenty thousand deep', /^(transient|permanent) /],
    [steps.put, 'S3 redirects by 307', /^permanent PermanentRedirect.*eu-north-1/],
    [steps.put, 'SlowDown with 400', /^transient SlowDown/],
    [steps.put, 'a failure with 200 that ends in "</Error>\\n"', /^transient InternalError/],
    [steps.put, 'a clock that is off', /^transient RequestTimeTooSkewed/],
    [steps.begin, 'no upload id', /^transient incomplete_response.*UploadId/],
    [steps.begin, 'a failure with 200 that ends in "</Error>\\n"', /^transient InternalError/],
    [steps.part, 'no ETag', /^transient incomplete_response.*ETag/],
    [steps.part, 'NoSuchUpload with 400', /^permanent NoSuchUpload/],
    [steps.complete, 'InternalError with 200', /^transient InternalError/],
    [steps.complete, 'a failure with 200 that ends in "</Error>\\n"', /^transient InternalError/],
    [steps.complete, 'a failure with 200 that ends in "</Error><!-- -->"', /^transient incomplete_response/],
    [steps.complete, 'a completion without an ETag', /^transient incomplete_response/],
    [steps.complete, 'a completion of nothing', /^transient /],
    [steps.complete, 'a completion that is cut', /^transient /],
  ]
  for (const [step, name, expected] of said) {
    const fault = faults[name]
    if (fault === undefined) throw new Error(`no fault "${name}"`)
    const rogue = await startRogue(honestStore, step, fault)
    const one = step === steps.put ? target : partsTarget
    const outcome = await attempt(one.open(rogue.port), one.batch, 60_000)
    const { class: errorClass, code, message } = Object(outcome)
    t.match(outcome === 'delivered' ? outcome : `${errorClass} ${code} ${message}`, expected, name)
    await rogue.stop()
  }
})

t.test('a failed upload is removed, what failed is told even when the removal does too', async (t) => {
  const rogue = await startRogue(honestStore, steps.complete, ofStores['InvalidPart with 400'] ?? honestly)
  t.teardown(() => rogue.stop())
  t.match(await attempt(openInParts(rogue.port), partsTarget.batch, 60_000), { code: 'InvalidPart' })
  t.match(rogue.heard(), /DELETE \/b\/[^ ]*uploadId=upload-1/)
})

t.test('nothing of an object in parts is sent after the end of the attempt', async (t) => {
  const rogue = await startRogue(honestStore, steps.part, () => {})
  t.teardown(() => rogue.stop())
  const driver = openInParts(rogue.port)
  t.teardown(() => driver.close())
  const stop = new AbortController()
  const outcome = driver.deliver(partsTarget.batch, stop.signal).catch((error: unknown) => error)
  const parts = () => rogue.heard().match(/PUT /g)?.length ?? 0
  await until('two parts are under way', () => parts() === 2)
  stop.abort()
  t.match(await outcome, { class: 'transient', code: 'aborted' })
  await until('the upload is removed', () => rogue.heard().includes('DELETE '))
  await until('only the connection of the removal is left', () => rogue.open() <= 1)
  t.equal(parts(), 2)
})

t.test('test of a destination: every fault is a result', async (t) => {
  for (const [at, [name, fault]] of Object.entries(lively).entries()) {
    const step = [steps.put, steps.head, steps.remove][at % 3] ?? steps.put
    const rogue = await startRogue(honestStore, step, fault)
    const limit = AbortSignal.timeout(30_000)
    const checks = await checkDestination(spec(`http://127.0.0.1:${rogue.port}`), openSettings, limit, null)
    t.same(
      checks.flatMap(({ message }) => faultsOfText(message, secrets)),
      [],
      `${name} at ${step}`,
    )
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
