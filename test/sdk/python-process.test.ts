/** The Python package when its process ends, forks or is cancelled, and with asyncio. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { inTurn, openFaultyPipe } from '../support/ingest-faults.ts'
import { numbersOf, range, reportOf, runScenario } from './python-scenarios.ts'

const daemon = await startDaemon()
const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-python-'))
t.teardown(async () => {
  rmSync(directory, { recursive: true, force: true })
  await daemon.close()
})
const sorted = (numbers: number[]) => numbers.toSorted((a, b) => a - b)

t.test('a process that ends without close sends what is pending, also what its exit adds', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = inTurn(['lost', 'busy'])
  const ended = await runScenario(pipe.env, 'exits', '700')
  t.same([ended.code, ended.stderr], [0, ''])
  t.same(numbersOf(await pipe.arrived()), range(0, 701))
  pipe.close()
})

t.test('without a daemon the exit is bounded, and reports what was not stored', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = () => 'busy'
  const ended = await runScenario(pipe.env, 'exits_without_server', '700')
  // Two batches.
  t.same([ended.code, ended.stdout, ended.stderr], [0, '700 closed\n', ''])
  t.same(await pipe.arrived(), [])
  pipe.close()
})

for (const spool of ['', 'spool']) {
  t.test(`fork ${spool && 'with a spool '}sends the records of each process once`, async (t) => {
    const pipe = await openFaultyPipe(daemon)
    pipe.decide = inTurn(['forwarded', 'lost', 'lost'])
    const report = reportOf(await runScenario(pipe.env, 'forks', spool && path.join(directory, spool)))
    t.match(report, { codes: [0, 0], left: 0, dropped: [] })
    const numbers = numbersOf(await pipe.arrived())
    t.same(sorted(numbers), [...range(0, 900), ...range(1_000, 1_150), ...range(2_000, 2_150)])
    pipe.close()
  })
}

t.test('asyncio: tasks that send, a cancelled flush and faults: each record is stored once', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = inTurn(['lost', 'cut', 'silent', 'lost'])
  const report = reportOf(await runScenario(pipe.env, 'asynchronous', '1000'))
  t.match(report, { flushed: true, cancelled: 'CancelledError', dropped: [], stats: { stored: 1_000 } })
  t.same(sorted(numbersOf(await pipe.arrived())), range(0, 1_000))
  pipe.close()
})

t.test('asyncio: send waits for space, and a cancelled one has sent nothing', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const go = path.join(directory, 'go')
  pipe.decide = () => (existsSync(go) ? 'forwarded' : 'cut')
  const report = reportOf(await runScenario(pipe.env, 'async_blocked', go))
  t.match(report, { early: 0, sent: ['CancelledError', 'bool'], left: 0, threads: ['MainThread'] })
  t.same(numbersOf(await pipe.arrived()), [...range(0, 100), 101])
  pipe.close()
})

t.test('asyncio: a cancelled program sends what is pending', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = inTurn(['lost'])
  const ended = await runScenario(pipe.env, 'async_cancelled', '300', {
    onLine: (_, child) => child.kill('SIGTERM'),
  })
  t.same([ended.code, ended.stderr], [0, ''])
  t.same(numbersOf(await pipe.arrived()), range(0, 300))
  pipe.close()
})
