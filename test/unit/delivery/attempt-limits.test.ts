import { pino } from 'pino'
import t from 'tap'
import { Attempt, type AttemptCalls } from '../../../src/delivery/attempt.ts'
import type { TransformedBody } from '../../../src/delivery/transform/thread-protocol.ts'
import type { AttemptProgress } from '../../../src/destinations/driver.ts'
import { attemptSteps, makeLaneSpec, noDrift } from '../../support/attempt-steps.ts'
import { makeBatch } from '../../support/batches.ts'
import { TestClock } from '../../support/test-clock.ts'
import { until } from '../../support/until.ts'

/** The driver's own deadline, and the margin of an attempt. */
const limitMs = 17_000
const log = pino({ level: 'silent' })
const unchanged: TransformedBody = { body: null, places: null, filtered: 1, failed: [] }

/** An attempt whose transform ends, and whose driver does, when the test says so. */
async function attempt({ minds = true, park = null as AttemptCalls['park'] } = {}) {
  const clock = new TestClock()
  const progress: AttemptProgress[] = []
  let transformed = () => {}
  let stored = () => {}
  const steps = attemptSteps(noDrift, clock, log, {
    run: (_lane, _transform, bodies, signal) =>
      new Promise((resolve, reject) => {
        transformed = () => resolve(bodies.map(() => unchanged))
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
  })
  const running = new Attempt(
    {
      spec: makeLaneSpec({ transform: { filter: 'record.n > 0', map: [], mask_salt: null } }),
      batch: makeBatch([[{ n: 0 }, { n: 1 }]]),
      driver: {
        deliver: (_batch, signal, given) =>
          new Promise((resolve, reject) => {
            if (given !== undefined) progress.push(given)
            stored = resolve
            if (minds) signal.addEventListener('abort', () => reject(new Error('aborted')))
          }),
        close: async () => {},
      },
    },
    { beforeRequest: async () => {}, messageIdAt: async () => null, park },
    { clock, log, steps, epoch: 1 },
  )
  const outcome = running.run()
  const asked = async () => {
    transformed()
    await until('the driver is asked', () => progress.length === 1)
    return progress[0]!
  }
  return { clock, outcome, asked, stored: () => stored() }
}

t.test('waiting for the transform is not the time of the destination', async (t) => {
  const { clock, outcome, asked, stored } = await attempt()
  await clock.advance(200_000)
  await asked()
  await clock.advance(limitMs - 1)
  stored()
  t.match(await outcome, { kind: 'delivered', wasAsked: true, filtered: new Map([[1, 1]]) })
})

t.test('after the transform the destination has its own limit', async (t) => {
  const { clock, outcome, asked } = await attempt()
  await clock.advance(200_000)
  await asked()
  await clock.advance(limitMs)
  t.match(await outcome, { kind: 'failed', error: { code: 'attempt_timeout', timedOut: 'unknown' } })
})

t.test('a transform that does not end has a code of its own, and nothing was sent', async (t) => {
  const { clock, outcome } = await attempt()
  await clock.advance(300_000)
  const { error, wasAsked } = Object(await outcome)
  t.match(error, { class: 'transient', code: 'transform_waiting', message: /did not finish within 300 s/ })
  t.equal(error.timedOut, undefined, 'the same batch goes again')
  t.equal(wasAsked, false)
})

t.test('a driver that was given up can ask nothing of the lane', async (t) => {
  const { clock, outcome, asked } = await attempt({ minds: false, park: async () => {} })
  const progress = await asked()
  await progress.park!([])
  await clock.advance(limitMs)
  await clock.advance(2_000)
  t.match(await outcome, { kind: 'failed', isHung: true, error: { code: 'attempt_timeout' } })
  await t.rejects(progress.park!([]), { code: 'aborted' })
  await t.rejects(progress.messageIdAt(1), { code: 'aborted' })
})

t.test('an attempt that was given up while it waited to park parks nothing', async (t) => {
  const written: string[] = []
  let hasRoom = () => {}
  const room = new Promise<void>((resolve) => {
    hasRoom = resolve
  })
  const { clock, outcome, asked } = await attempt({
    minds: false,
    park: async (_, requireCurrent) => {
      await room
      requireCurrent()
      written.push('parked')
    },
  })
  const parking = (await asked()).park!([])
  await clock.advance(limitMs)
  await clock.advance(2_000)
  t.match(await outcome, { kind: 'failed', isHung: true })
  hasRoom()
  await t.rejects(parking, { code: 'aborted' })
  t.strictSame(written, [])
})
