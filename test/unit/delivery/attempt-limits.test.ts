import { pino } from 'pino'
import t from 'tap'
import { attemptDelivery } from '../../../src/delivery/attempt.ts'
import { type AttemptProgress, noProgress } from '../../../src/destinations/driver.ts'
import { TestClock } from '../../support/test-clock.ts'

const never = new AbortController().signal
const limitMs = 17_000

/** An attempt whose driver does what the test tells it to. */
function attempt(minds = true) {
  const clock = new TestClock()
  const reported: string[] = []
  let progress!: AttemptProgress
  let isTransformed = () => {}
  const outcome = attemptDelivery(
    (signal, given) => {
      progress = given
      return new Promise((resolve, reject) => {
        isTransformed = resolve
        if (minds) signal.addEventListener('abort', () => reject(new Error('aborted')))
      })
    },
    limitMs,
    never,
    {
      clock,
      log: pino({ level: 'silent' }),
      ...noProgress,
      beforeRequest: async () => {},
      park: async () => {
        reported.push('set aside')
      },
      filtered: () => reported.push('filtered'),
      notAsked: () => reported.push('not asked'),
    },
  )
  return { clock, outcome, reported, progress, resolve: () => isTransformed() }
}

t.test('waiting for the transform is not the time of the destination', async (t) => {
  const { clock, outcome, progress, resolve } = attempt()
  progress.transforming(true)
  await clock.advance(200_000)
  progress.transforming(false)
  await clock.advance(limitMs - 1)
  resolve()
  t.match(await outcome, { kind: 'delivered' })
})

t.test('after the transform the destination has its own limit', async (t) => {
  const { clock, outcome, progress } = attempt()
  progress.transforming(true)
  await clock.advance(200_000)
  progress.transforming(false)
  await clock.advance(limitMs)
  t.match(await outcome, { kind: 'failed', error: { code: 'attempt_timeout', timedOut: 'unknown' } })
})

t.test('a transform that does not end has a code of its own, and nothing was sent', async (t) => {
  const { clock, outcome, progress } = attempt()
  progress.transforming(true)
  await clock.advance(300_000)
  const { error } = Object(await outcome)
  t.match(error, { class: 'transient', code: 'transform_waiting', message: /did not finish within 300 s/ })
  t.equal(error.timedOut, undefined, 'the same batch goes again')
})

t.test('what a driver reports after it was given up is ignored', async (t) => {
  const { clock, outcome, progress, reported } = attempt(false)
  progress.filtered(1, 1)
  await clock.advance(limitMs)
  await clock.advance(2_000)
  t.match(await outcome, { kind: 'failed', isHung: true, error: { code: 'attempt_timeout' } })
  await t.rejects(progress.park!([]), { code: 'aborted' })
  progress.filtered(1, 1)
  progress.notAsked()
  t.same(reported, ['filtered'])
})

t.test('an attempt that was given up while it waited to park parks nothing', async (t) => {
  const clock = new TestClock()
  const written: string[] = []
  let hasRoom = () => {}
  const room = new Promise<void>((resolve) => {
    hasRoom = resolve
  })
  let parking: Promise<void> = Promise.resolve()
  const outcome = attemptDelivery(
    async (_, { park }) => {
      parking = park!([])
      await parking
    },
    limitMs,
    never,
    {
      ...noProgress,
      clock,
      log: pino({ level: 'silent' }),
      park: async (_, requireCurrent) => {
        await room
        requireCurrent()
        written.push('parked')
      },
    },
  )
  await clock.advance(limitMs)
  await clock.advance(2_000)
  t.match(await outcome, { kind: 'failed', isHung: true })
  hasRoom()
  await t.rejects(parking, { code: 'aborted' })
  t.strictSame(written, [])
})
