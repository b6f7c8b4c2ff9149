import t from 'tap'
import type { Transform } from '../../../src/contract/transform.ts'
import { ExceededError } from '../../../src/delivery/transform/thread-protocol.ts'
import { hangs } from '../../support/hanging-filter.ts'
import { body, ever, hanging, lane, text, threads, transform } from './open-threads.ts'

t.test('messages, and what is left of them', async (t) => {
  const bodies = [
    body('{"n":1}', '{"n":2}', '{"n":3}'),
    body('{"n":2}'),
    body('{"n":9}'),
    body('{"m":2}', '{"n":2}'),
  ]
  const [some, all, none, failed] = await threads.run(lane('d'), transform('record.n == 2'), bodies, ever)
  t.match([text(some), some?.places, some?.filtered], ['{"n":2}', [1], 2])
  t.match(
    all,
    { body: null, places: null, filtered: 0, failed: [] },
    'a message that stays as it is is not sent back',
  )
  t.match([text(none), none?.places, none?.filtered], ['', [], 1])
  t.match([text(failed), failed?.places, failed?.filtered], ['{"n":2}', [1], 0])
  t.match(failed?.failed, [{ place: 0, code: 'filter_error' }])
  const [mapped] = await threads.run(
    lane('d'),
    transform(null, [{ op: 'drop', paths: ['n'] }]),
    [body('{"n":1}', '{"a":2}')],
    ever,
  )
  t.match([text(mapped), mapped?.places], ['{}\n{"a":2}', null])
})

t.test('records that were deleted from the log are left out', async (t) => {
  const bodies = [Buffer.from('\n\n{"n":2}\n{"n":3}'), Buffer.from('\n'), Buffer.from('\n\n')]
  const filtering = transform('record.n == 2')
  const [some, none, noneOfTwo] = await threads.run(lane('deleted'), filtering, bodies, ever)
  t.match([text(some), some?.places, some?.filtered, some?.failed], ['{"n":2}', [1], 2, []])
  t.match([text(none), none?.places, none?.filtered], ['', [], 1])
  t.match([text(noneOfTwo), noneOfTwo?.places, noneOfTwo?.filtered], ['', [], 2])
  const mapping = transform(null, [{ op: 'drop', paths: ['n'] }])
  const [mapped] = await threads.run(lane('deleted'), mapping, bodies, ever)
  t.match([text(mapped), mapped?.places, mapped?.filtered], ['{}\n{}', [1, 2], 1])
})

t.test('a failure says what was applied then: the filter, or which step of the map', async (t) => {
  const map: Transform['map'] = [
    { op: 'drop', paths: ['a'] },
    { op: 'mask', paths: ['b'] },
  ]
  // No record that was accepted is like this: no step fails on those but for memory and time.
  const broken = body('{"a":1,"b":"\\x"}')
  const [step] = await threads.run(lane('steps'), { filter: null, map, mask_salt: 'salt' }, [broken], ever)
  t.match(step?.failed, [
    {
      step: 2,
      code: 'transform_error',
      message: 'The transform cannot be applied to the record (SyntaxError).',
    },
  ])
  const [filter] = await threads.run(lane('steps'), transform('record.x == 1', map), [body('{"b":1}')], ever)
  t.match(filter?.failed, [{ step: 0, code: 'filter_error' }])
  const [hung] = await threads.run(lane('hung'), transform(hangs), [body(hanging)], ever)
  t.match(hung?.failed, [{ step: 0, code: 'transform_timeout' }])
})

t.test('what a transform adds is bounded', async (t) => {
  const value = 'x'.repeat(1_000)
  const map = Array.from({ length: 7 }, (_, n) => ({ op: 'constant' as const, key: `k${n}`, value }))
  const tiny = body(...Array<string>(10_000).fill('{}'))
  await t.rejects(threads.run(lane('large'), transform(null, map), [body('{}'), tiny], ever), ExceededError)
})

t.test('an attempt that is aborted waits for nothing', async (t) => {
  const stop = new AbortController()
  const run = threads.run(lane('stopped'), transform(hangs), [body(hanging)], stop.signal)
  stop.abort(new Error('stopped'))
  await t.rejects(run, /stopped/)
  await t.rejects(threads.run(lane('stopped'), transform(null), [body('{}')], stop.signal), /stopped/)
  t.match(await threads.run(lane('next'), transform('record.n == 1'), [body('{"n":1}')], ever), [
    { places: null },
  ])
})
