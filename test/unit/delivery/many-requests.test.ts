/** As many requests at once as a destination may have: none of what they listen to looks like a leak to Node.js. */

import net from 'node:net'
import { pino } from 'pino'
import t from 'tap'
import { maxConcurrency } from '../../../src/contract/delivery-settings.ts'
import { Attempt } from '../../../src/delivery/attempt.ts'
import { RateGate, systemClock } from '../../../src/delivery/clock.ts'
import { type DestinationDriver, noProgress } from '../../../src/destinations/driver.ts'
import { openDriver } from '../../../src/destinations/drivers.ts'
import { attemptSteps, makeLaneSpec, noDrift } from '../../support/attempt-steps.ts'
import { anyKey, makeBatch, makeSpec, openSettings } from '../../support/batches.ts'
import { until } from '../../support/until.ts'

const warnings: string[] = []
process.on('warning', ({ name }) => warnings.push(name))
/** Warnings come at the end of the turn. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('control: eleven that listen to one signal are a warning', async (t) => {
  const { signal } = new AbortController()
  for (let n = 0; n < 11; n += 1) signal.addEventListener('abort', () => {})
  await turn()
  t.same(warnings.splice(0), ['MaxListenersExceededWarning'])
})

t.test('all wait for the rate', async (t) => {
  const gate = new RateGate(systemClock)
  const log = pino({ level: 'silent' })
  const driver: DestinationDriver = {
    async deliver(_batch, _signal, { beforeRequest } = noProgress) {
      await Promise.all(Array.from({ length: maxConcurrency }, () => beforeRequest()))
    },
    close: async () => {},
  }
  const attempt = new Attempt(
    { spec: makeLaneSpec(), batch: makeBatch([[{ n: 0 }]]), driver },
    { ...noProgress, beforeRequest: (signal) => gate.wait(500, signal), park: null },
    { clock: systemClock, log, steps: attemptSteps(noDrift, systemClock, log), epoch: 1 },
  )
  const outcome = await attempt.run()
  await turn()
  t.match(outcome, { kind: 'delivered' })
  t.same(warnings, [])
})

t.test('all are in their TLS handshake', async (t) => {
  const sockets: net.Socket[] = []
  // It never answers.
  const server = net.createServer((socket) => void sockets.push(socket.on('error', () => {})))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as net.AddressInfo
  const spec = makeSpec('destination_http_endpoint', {
    url: `https://127.0.0.1:${port}/`,
    body_format: 'json_object',
  })
  const driver = openDriver({ ...spec, concurrency: maxConcurrency }, openSettings, anyKey)
  const stop = new AbortController()
  const records = Array.from({ length: maxConcurrency }, (_, n) => ({ n }))
  const delivered = driver.deliver(makeBatch([records]), stop.signal).catch((error: unknown) => error)
  await until('every connection is made', () => sockets.length === maxConcurrency)
  stop.abort()
  t.match(await delivered, { class: 'transient' })
  await driver.close()
  for (const socket of sockets) socket.destroy()
  t.same(warnings, [])
})
