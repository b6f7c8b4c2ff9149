import { readFileSync } from 'node:fs'
import { pino } from 'pino'
import t from 'tap'
import { type ShutdownStep, ShutdownSteps, shutdownDeadlinesMs } from '../../src/daemon/shutdown-steps.ts'

const names = Object.keys(shutdownDeadlinesMs) as ShutdownStep[]
const shortDeadlines = Object.fromEntries(names.map((name) => [name, 20])) as typeof shutdownDeadlinesMs

function openSteps() {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'debug' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const ran: string[] = []
  const steps = new ShutdownSteps(log, shortDeadlines)
  // Added in another order than they run in.
  for (const name of [...names].reverse()) steps.set(name, () => ran.push(name))
  return { steps, ran, lines }
}

t.test('runs every step in order, whatever order they were added in', async (t) => {
  const { steps, ran, lines } = openSteps()
  t.equal(steps.isRunning, false)
  t.same(await steps.run(), [])
  t.equal(steps.isRunning, true)
  t.same(ran, names)
  t.same(
    lines.map(({ msg }) => msg),
    names.map(() => 'shutdown.step'),
  )
})

const breakages: [string, () => unknown][] = [
  [
    'throws',
    () => {
      throw new Error('no space left on device')
    },
  ],
  ['rejects', () => Promise.reject(new Error('no space left on device'))],
  ['never ends', () => new Promise(() => {})],
]
for (const [how, run] of breakages) {
  t.test(`a step that ${how} is named, logged with its error, and keeps no other from running`, async (t) => {
    for (const broken of names) {
      const { steps, ran, lines } = openSteps()
      steps.set(broken, run)
      t.same(await steps.run(), [broken])
      t.same(
        ran,
        names.filter((name) => name !== broken),
      )
      const logged = lines.find(({ msg }) => msg === 'shutdown.step_failed')
      t.match(logged, { step: broken, err: { message: /no space left|not finished after 20 ms/ } })
    }
  })
}

t.test('a part that was never opened has no step', async (t) => {
  const steps = new ShutdownSteps(pino({ level: 'silent' }), shortDeadlines)
  let closed = 0
  steps.set('close metadata', () => closed++)
  t.same(await steps.run(), [])
  t.equal(closed, 1)
  await steps.run()
  t.equal(closed, 1, 'and none runs twice')
})

t.test('all deadlines together are within the time that systemd waits before it kills', async (t) => {
  const unit = readFileSync(new URL('../../systemd/pipectl.service', import.meta.url), 'utf8')
  const waitMs = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]) * 1000
  const sum = Object.values(shutdownDeadlinesMs).reduce((total, ms) => total + ms)
  t.ok(sum < waitMs, `${sum} of ${waitMs} ms`)
})
