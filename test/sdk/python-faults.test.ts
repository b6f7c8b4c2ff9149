/**
 * The Python package against a real daemon, with a network that loses requests and responses: each record is stored
 * once, in order, or reported as dropped.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { type Fate, inTurn, openFaultyPipe } from '../support/ingest-faults.ts'
import { generator } from '../support/random-json.ts'
import { numbersOf, range, reportOf, runScenario } from './python-scenarios.ts'

const daemon = await startDaemon()
const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-python-'))
t.teardown(async () => {
  rmSync(directory, { recursive: true, force: true })
  await daemon.close()
})

const troubles: Fate[] = ['cut', 'lost', 'busy', 'limited', 'silent', 'forwarded', 'lost', 'cut', 'lost']

t.test('lost requests and responses, 503 and 429: each record is stored once, in order', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = inTurn(troubles)
  const report = reportOf(await runScenario(pipe.env, 'many', '2000'))
  t.same(numbersOf(await pipe.arrived()), range(0, 2_000))
  t.match(report, { flushed: true, dropped: [], stats: { stored: 2_000, dropped: 0, pending: 0 } })
  // A connection that was open and is cut is tried once more at once.
  t.same(
    report.errors.filter((code) => code !== 'no_response'),
    ['http_503', 'rate_limit_exceeded'],
  )
  const bodies = new Map<string, Set<string>>()
  for (const { key, body } of pipe.attempts) bodies.set(key, (bodies.get(key) ?? new Set()).add(body))
  t.ok([...bodies.values()].every(({ size }) => size === 1))
  t.equal(bodies.size, 20, 'each batch has one key, in all of its attempts')
  for (const fate of ['busy', 'limited'] as const) {
    const index = pipe.attempts.findIndex((attempt) => attempt.fate === fate)
    const [told, next] = pipe.attempts.slice(index)
    t.ok(next!.at - told!.at >= 950, 'it waits as long as Retry-After says')
  }
  t.ok(pipe.attempts.every(({ headers }) => headers['content-encoding'] === 'gzip'))
  pipe.close()
})

t.test('negative control: with a new key for each attempt, records are stored twice', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = inTurn(['forwarded', 'lost', 'lost'])
  reportOf(await runScenario(pipe.env, 'new_key_each_time', '300'))
  const numbers = numbersOf(await pipe.arrived())
  t.equal(numbers.length, 400)
  t.equal(new Set(numbers).size, 300)
  pipe.close()
})

t.test('random faults, and four threads that send: each record is stored once', async (t) => {
  const random = generator(Number(process.env.TEST_SEED ?? 7))
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = () => (['cut', 'lost', 'forwarded', 'forwarded'] as const)[Math.floor(random() * 4)]!
  const report = reportOf(await runScenario(pipe.env, 'threads', '2000'))
  const numbers = numbersOf(await pipe.arrived())
  t.same([report.left, numbers.length], [0, 2_000])
  t.same(
    numbers.toSorted((a, b) => a - b),
    range(0, 2_000),
  )
  for (const k of [0, 1, 2, 3]) {
    const own = numbers.filter((n) => Math.floor(n / 500) === k)
    t.same(own, range(k * 500, k * 500 + 500), 'the records of a thread arrive in its order')
  }
  pipe.close()
})

t.test('413: a batch is halved until it fits, and a record that never fits is dropped', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  pipe.decide = ({ body }) => (body.length > 1_000 ? 'too_large' : 'forwarded')
  const report = reportOf(await runScenario(pipe.env, 'many', '500', '500', '{"compress": false}'))
  t.same(numbersOf(await pipe.arrived()), range(0, 500))
  t.same(report.dropped, [])
  const smaller = await openFaultyPipe(daemon)
  smaller.decide = ({ body }) => (/"n":(7|20),/.test(body) ? 'too_large' : 'forwarded')
  const { dropped, stats } = reportOf(await runScenario(smaller.env, 'many', '30'))
  const others = range(0, 30).filter((n) => n !== 7 && n !== 20)
  t.same(numbersOf(await smaller.arrived()), others)
  t.same(dropped, [
    [[7], 'rejected', 'http_413'],
    [[20], 'rejected', 'http_413'],
  ])
  t.match(stats, { stored: 28, dropped: 2, pending: 0 })
  pipe.close()
  smaller.close()
})

t.test('the limit of a pipe, and records that are rejected: only those are dropped', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const limits = { pl_ingest_max_records_per_request: 30, pl_ingest_max_records_per_second: 100_000 }
  const { status } = await daemon.api('PUT', `/v1/pipes/${pipe.pipeId}/limits`, {
    ...limits,
    pl_ingest_max_records_per_day: 1_000_000,
    pl_delivery_max_records_per_flush: 1_000,
    pl_delivery_max_bytes_per_flush: 1_000_000,
    pl_delivery_max_seconds_per_flush: 1,
  })
  t.equal(status, 200)
  const report = reportOf(await runScenario(pipe.env, 'rejected'))
  t.same(
    numbersOf(await pipe.arrived()),
    range(0, 100).filter((n) => n !== 17 && n !== 63),
  )
  t.same(report.dropped, [
    [['{"n":17,"wrong":}'], 'rejected', 'invalid_payload'],
    [['{"n":63,"wrong":}'], 'rejected', 'invalid_payload'],
  ])
  pipe.close()
})

t.test('records of every form keep their digits; what is no JSON object is not accepted', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const report = reportOf(await runScenario(pipe.env, 'kinds'))
  t.match(report, { wrong: 8, left: 0, stats: { stored: 3 } })
  t.equal(
    pipe.attempts.map(({ body }) => body).join(''),
    '{"n":1,"at":"2027-01-31T06:00:00+00:00"}\n{"n": 2, "price": 1.10,  "id": 12345678901234567890}\n{"n": 3, "text": "é"}\n',
  )
  pipe.close()
})

t.test('a paused pipe and a wrong key: records wait until they are accepted', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  await daemon.api('PATCH', `/v1/pipes/${pipe.pipeId}`, { pipe_status: 'paused' })
  const sender = runScenario(pipe.env, 'until_stored', '50', {
    onLine: (line) => {
      if (line === 'pipe_not_found')
        void daemon.api('PATCH', `/v1/pipes/${pipe.pipeId}`, { pipe_status: 'active' })
    },
  })
  t.match(reportOf(await sender), { left: 0, stats: { stored: 50 } })
  t.same(numbersOf(await pipe.arrived()), range(0, 50))
  const stranger = { ...pipe.env, PIPECTL_API_KEY: `ppl1_${'A'.repeat(38)}` }
  const ended = await runScenario(stranger, 'exits_without_server', '50')
  t.equal(ended.stdout, '50 closed\n')
  t.same(await pipe.arrived(), [])
  pipe.close()
})

t.test('a full queue drops the oldest records, which are reported', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const go = path.join(directory, 'go')
  pipe.decide = () => (existsSync(go) ? 'forwarded' : 'cut')
  const report = reportOf(await runScenario(pipe.env, 'full', 'drop', go))
  const numbers = numbersOf(await pipe.arrived())
  const dropped = report.dropped.flatMap(([records]) => records as number[])
  t.same(
    [...dropped, ...numbers].toSorted((a, b) => a - b),
    range(0, 1_000),
  )
  t.ok(report.dropped.every(([, reason]) => reason === 'full'))
  t.equal(numbers.at(-1), 999)
  t.ok(numbers.length <= 250)
  t.match(report, { left: 0, stats: { stored: numbers.length, dropped: dropped.length } })
  pipe.close()
})

t.test('with when_full="block", send waits for space, and nothing is dropped', async (t) => {
  const pipe = await openFaultyPipe(daemon)
  const go = path.join(directory, 'go-on')
  pipe.decide = () => (existsSync(go) ? 'forwarded' : 'cut')
  const report = reportOf(await runScenario(pipe.env, 'full', 'block', go))
  t.same(numbersOf(await pipe.arrived()), range(0, 1_000))
  t.match(report, { left: 0, dropped: [] })
  pipe.close()
})
