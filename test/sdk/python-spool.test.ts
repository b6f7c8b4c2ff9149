/** The spool of the Python package: `kill -9` at any moment loses nothing that `send` has accepted, and repeats nothing. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { type Fate, type FaultyPipe, inTurn, openFaultyPipe } from '../support/ingest-faults.ts'
import { generator } from '../support/random-json.ts'
import { until } from '../support/until.ts'
import { numbersOf, range, reportOf, runScenario } from './python-scenarios.ts'

const daemon = await startDaemon()
const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-spool-'))
t.teardown(async () => {
  rmSync(directory, { recursive: true, force: true })
  await daemon.close()
})

/** Sends until it is killed, after `lines` records and `attempts` requests. Returns the numbers that `send` has accepted. */
async function killedAfter(
  pipe: FaultyPipe,
  { lines, attempts = 0 }: { lines: number; attempts?: number },
  first: number,
  spool: string,
): Promise<number[]> {
  let seen = 0
  const ended = await runScenario(pipe.env, 'endless', String(first), spool, {
    onLine: (_, child) => {
      if (++seen !== lines) return
      void until('the requests', () => pipe.attempts.length >= attempts).then(() => child.kill('SIGKILL'))
    },
  })
  t.equal(ended.code, 'SIGKILL', ended.stderr)
  return ended.stdout.split('\n').slice(0, -1).map(Number)
}

t.test('kill -9, again and again, under lost requests and responses', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const spool = path.join(directory, 'killed')
  const random = generator(Number(process.env.TEST_SEED ?? 11))
  const fates: Fate[] = ['cut', 'lost', 'busy', 'forwarded', 'forwarded', 'silent']
  pipe.decide = () => fates[Math.floor(random() * fates.length)]!
  const accepted: number[] = []
  for (const lines of [1, 150, 33, 410]) {
    accepted.push(...(await killedAfter(pipe, { lines }, accepted.length * 10 + 1, spool)))
  }
  // No request arrives: everything is still in the spool.
  pipe.decide = () => 'cut'
  accepted.push(...(await killedAfter(pipe, { lines: 70 }, 1_000_000, spool)))
  pipe.decide = () => 'forwarded'
  const report = reportOf(await runScenario(pipe.env, 'drain', spool))
  t.match(report, { flushed: true, left: 0, dropped: [] })
  t.same(readdirSync(spool), [], 'the spool is empty')
  const numbers = await storedOnce(t, pipe, accepted)
  // A record can be stored whose `send` was killed before it returned, one for each kill.
  t.ok(numbers.length - accepted.length <= 5)
  pipe.close()
})

t.test('negative control: without a spool, kill -9 loses records', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = () => 'cut'
  const accepted = await killedAfter(pipe, { lines: 100 }, 0, '')
  pipe.decide = () => 'forwarded'
  t.ok(accepted.length >= 100)
  t.same(await pipe.arrived(), [])
  pipe.close()
})

t.test('a batch whose response was lost has the same key after a restart', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const spool = path.join(directory, 'same-key')
  pipe.decide = () => 'lost'
  await killedAfter(pipe, { lines: 60, attempts: 3 }, 0, spool)
  const keys = new Set(pipe.attempts.map(({ key }) => key))
  t.equal(keys.size, 1, 'the first batch, in each attempt')
  pipe.decide = () => 'forwarded'
  const before = pipe.attempts.length
  reportOf(await runScenario(pipe.env, 'drain', spool))
  t.ok(keys.has(pipe.attempts[before]!.key))
  const numbers = numbersOf(await pipe.arrived())
  t.same(numbers, range(0, numbers.length))
  pipe.close()
})

t.test('what close leaves is sent by the next client', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const spool = path.join(directory, 'left')
  pipe.decide = () => 'busy'
  const report = reportOf(await runScenario(pipe.env, 'closes_early', '120', spool))
  t.match(report, { left: 120, dropped: [] })
  pipe.decide = () => 'forwarded'
  reportOf(await runScenario(pipe.env, 'drain', spool))
  t.same(numbersOf(await pipe.arrived()), range(0, 120))
  pipe.close()
})

t.test('processes share a spool: a live one keeps its batches, one that has ended does not', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const spool = path.join(directory, 'shared')
  pipe.decide = () => 'cut'
  let drained: Promise<unknown> | null = null
  let seen = 0
  const live = runScenario(pipe.env, 'endless', '0', spool, {
    onLine: (_, child) => {
      if (++seen !== 100) return
      // Started next to the live one: it has nothing to send.
      drained = runScenario(pipe.env, 'drain', spool).then((ended) => {
        child.kill('SIGKILL')
        return reportOf(ended)
      })
    },
  })
  const accepted = (await live).stdout.split('\n').slice(0, -1).map(Number)
  t.match(await drained, { flushed: true, left: 0, stats: { stored: 0, failed_attempts: 0 } })
  pipe.decide = () => 'forwarded'
  reportOf(await runScenario(pipe.env, 'drain', spool))
  const numbers = numbersOf(await pipe.arrived())
  t.same(numbers.slice(0, accepted.length), accepted)
  t.equal(new Set(numbers).size, numbers.length)
  pipe.close()
})

for (const limit of ['1000', '0']) {
  t.test(`a disk that takes ${limit} bytes of a file: every record is stored, in order`, async (t) => {
    const pipe = await openFaultyPipe(daemon)
    pipe.decide = inTurn(['lost', 'cut'])
    const ended = await runScenario(pipe.env, 'disk_full', path.join(directory, `full-${limit}`), limit)
    const report = JSON.parse(ended.stdout)
    t.match(report, { left: 0, dropped: [], files: [], stats: { stored: 300 } })
    t.same(numbersOf(await pipe.arrived()), range(0, 300))
    t.equal(ended.stderr.includes('the spool cannot be written'), limit === '0', ended.stderr)
    pipe.close()
  })
}

t.test('a torn line, an unfinished split and files of others', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const spool = path.join(directory, 'prepared')
  const own = path.join(spool, 'a'.repeat(32))
  mkdirSync(own, { recursive: true })
  const parent = '6f9619ff-8b86-4d01-b42d-00cf4fc964ff'
  // uuid5 of the parent with "0": the key of its first half.
  const half = '7443b2c8-46d3-5c00-b3f2-acadb1cf7bf2'
  writeFileSync(path.join(own, `000000000001_${parent}.ndjson`), '{"n":0}\n{"n":1}\n')
  writeFileSync(path.join(own, `000000000001.0_${half}.ndjson`), '{"n":0}\n')
  writeFileSync(path.join(own, '000000000001.1_x.ndjson.tmp'), '{"n":1')
  writeFileSync(path.join(own, '000000000002.open'), '{"n":2}\n{"n":3}\n{"n":4')
  writeFileSync(path.join(own, '000000000003.open'), '')
  writeFileSync(path.join(spool, 'README'), 'not a batch')
  const report = reportOf(await runScenario(pipe.env, 'drain', spool))
  t.match(report, { flushed: true, left: 0, stats: { stored: 4 }, files: ['README'] })
  t.same(numbersOf(await pipe.arrived()), [0, 1, 2, 3])
  t.equal(pipe.attempts[0]?.key, parent)
  pipe.close()
})

t.test('kill -9 at every step of the spool', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  // Each run has a record that is rejected, so that its batch is split.
  const ended = await runScenario(pipe.env, 'every_step', path.join(directory, 'steps'))
  const { accepted, steps, wrong } = reportOf(ended) as unknown as {
    accepted: number[]
    steps: number
    wrong: string[]
  }
  t.ok(steps > 20, `${steps} steps`)
  t.same(wrong, [])
  await storedOnce(t, pipe, accepted)
  pipe.close()
})

/** Returns the numbers of the records that arrived. */
async function storedOnce(t: Test, pipe: FaultyPipe, accepted: readonly number[]): Promise<number[]> {
  const numbers = numbersOf(await pipe.arrived())
  t.equal(new Set(numbers).size, numbers.length, 'nothing is stored twice')
  const stored = new Set(numbers)
  t.same(
    accepted.filter((n) => !stored.has(n)),
    [],
    'nothing is lost',
  )
  return numbers
}
