/** Transforms that hang, burn CPU and fill memory: each costs its own lane, and no lane of another workspace waits for it. */
import { readdirSync, readFileSync } from 'node:fs'
import os from 'node:os'
import type { Worker } from 'node:worker_threads'
import t from 'tap'
import { TransformThreads } from '../../../src/delivery/transform/transform-threads.ts'
import { hangs } from '../../support/hanging-filter.ts'
import { body, ever, hanging, lane, text, threads, transform } from './open-threads.ts'

t.test('an expression that hangs costs its own record, and no other lane waits for it', async (t) => {
  const bad = threads.run(lane('bad'), transform(hangs), [body('{"s":"aa"}', hanging, '{"s":"a"}')], ever)
  let isBadDone = false
  void bad.then(() => {
    isBadDone = true
  })
  const good = await threads.run(lane('good'), transform('record.n == 1'), [body('{"n":1}')], ever)
  t.match(good, [{ places: null }])
  const [made] = await bad
  t.ok(isBadDone)
  t.match([text(made), made?.places], ['{"s":"aa"}\n{"s":"a"}', [0, 2]])
  t.match(made?.failed, [{ place: 1, code: 'transform_timeout' }])
  // It has its own thread by now: the shared one is not ended again.
  const again = threads.run(lane('bad'), transform(hangs), [body(hanging)], ever)
  t.match(await threads.run(lane('good'), transform('record.n == 1'), [body('{"n":1}')], ever), [
    { places: null },
  ])
  t.match((await again)[0]?.failed, [{ code: 'transform_timeout' }])
})

t.test('a workspace costs the others one hang, not one for each of its lanes', async (t) => {
  const own = new TransformThreads()
  const started: Worker[] = []
  const note = (worker: Worker) => started.push(worker)
  process.on('worker', note)
  t.teardown(async () => {
    process.off('worker', note)
    await own.close()
  })
  const hang = (id: string) => own.run(lane(id, 'hanging'), transform(hangs), [body(hanging)], ever)
  const ask = () => own.run(lane('n', 'neighbor'), transform('record.n == 1'), [body('{"n":1}')], ever)
  await hang('first')
  await ask()
  let hasEnded = false
  started.at(-1)!.once('exit', () => {
    hasEnded = true
  })
  let isDone = false
  const others = Promise.all([hang('second'), hang('third')]).finally(() => {
    isDone = true
  })
  while (!isDone) await ask()
  t.equal(hasEnded, false, 'the thread of the others was not ended')
  for (const [made] of await others) t.match(made?.failed, [{ code: 'transform_timeout' }])
})

t.test(
  'what is slow has a lower priority than all else',
  { skip: process.platform !== 'linux' && 'a thread has a priority of its own on Linux' },
  async (t) => {
    // It starts both kinds of threads, whatever tests before have left.
    await threads.run(lane('first', 'slow'), transform(hangs), [body(hanging)], ever)
    await threads.run(lane('second', 'quick'), transform('record.n == 1'), [body('{"n":1}')], ever)
    const nice = readdirSync('/proc/self/task').map((id) => {
      const stat = readFileSync(`/proc/self/task/${id}/stat`, 'utf8')
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
    })
    const own = os.getPriority()
    t.equal(nice[0], own, 'the thread of the test')
    t.ok(nice.includes(os.constants.priority.PRIORITY_BELOW_NORMAL))
    t.ok(nice.filter((one) => one === own).length > 4)
  },
)

t.test('a batch of records that hang goes in parts', async (t) => {
  const run = threads.run(
    lane('many'),
    transform(hangs),
    [body('{"s":"a"}'), body(...Array(9).fill(hanging))],
    ever,
  )
  await t.rejects(run, { name: 'ExceededError', messageAt: 1 })
})

t.test('memory is bounded: text, lists and nested macros', async (t) => {
  const list = `[${Array.from({ length: 3_000 }, (_, n) => n).join(',')}]`
  const doubled =
    'cel.bind(a, record.s+record.s+record.s+record.s, cel.bind(b, a+a+a+a+a+a+a+a, cel.bind(c, b+b+b+b+b+b+b+b, size(c+c+c+c+c+c+c+c) > 0)))'
  const cases: [string, string, string][] = [
    // 614 MB.
    ['text', doubled, `{"s":"${'x'.repeat(300_000)}"}`],
    // Allocated at once, each would end the process: V8 holds a thread to its heap limit in small steps only.
    ['joined', 'size(record.l.map(x, record.s).join("")) > 0', `{"s":"${'x'.repeat(150_000)}","l":${list}}`],
    [
      'split',
      'size(record.l.map(x, record.s.split(""))) > 0',
      `{"s":"${'x'.repeat(5_000_000)}","l":${list}}`,
    ],
    ['sums', doubled.replaceAll('record.s', 'record.l'), `{"l":${list}}`],
    ['lists', 'size(record.l.map(a, record.l.map(b, record.l.map(c, [a, b, c])))) > 0', `{"l":${list}}`],
    ['loops', 'record.l.all(a, record.l.all(b, record.l.all(c, a + b + c >= 0.0)))', `{"l":${list}}`],
  ]
  for (const [name, filter, record] of cases) {
    const [made] = await threads.run(lane(name), transform(filter), [body(record, '{"s":"","l":[]}')], ever)
    t.match(made?.failed[0], { place: 0, code: /^(transform_(timeout|memory|error)|filter_error)$/ }, name)
    t.ok((made?.failed.length ?? 0) + (made?.filtered ?? 0) + (made?.places?.length ?? 0) === 2, name)
  }
})

t.test('a workspace whose lanes are slow does not hold up the lanes of another', async (t) => {
  const stop = new AbortController()
  const slow = `{"s":"${'a'.repeat(9)}"}`
  let ended = 0
  const hostile = Array.from({ length: 40 }, (_, n) =>
    threads
      .run(lane(`slow-${n}`, 'hostile'), transform(hangs), [body(...Array(200).fill(slow))], stop.signal)
      .then(
        () => (ended += 1),
        () => {},
      ),
  )
  for (let n = 0; n < 20; n += 1)
    t.match(
      await threads.run(lane('quick', 'neighbor'), transform('record.n == 1'), [body('{"n":1}')], ever),
      [{ places: null, failed: [] }],
    )
  t.equal(ended, 0, 'none of the slow lanes was done before the neighbor was')
  stop.abort(new Error('stopped'))
  await Promise.all(hostile)
})
