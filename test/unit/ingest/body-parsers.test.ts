import '../buffer/typescript-workers.ts'
import { readdirSync } from 'node:fs'
import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import { type BodyParsers, openBodyParsers } from '../../../src/ingest/body-parsers.ts'
import { type Preparation, prepareBody } from '../../../src/ingest/prepare.ts'
import { until } from '../../support/until.ts'

const MiB = 1024 * 1024
const limits = { maxRecords: 40, maxKeys: 6, maxValues: Number.POSITIVE_INFINITY }
const preparation: Preparation = {
  format: 'json',
  limits,
  pipeMaxRecords: 15,
  enrichment: { keys: ['ts'], text: '"ts":"now"' },
  requiredFields: ['a'],
  schema: null,
  withHash: true,
}

/** A small random generator with a seed, so that a failure can be repeated. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const pieces = [
  '{"a":1}',
  '{"a":1.10,"ts":[2]}',
  '{"a":12345678901234567890,"\\u0074s":0}',
  '{}',
  '{"b":2}',
  '{"a":{"b":{"c":[1,{"d":2}]}}}',
  '{"a":1,\n"b":"\\n"}',
  '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}',
  '[]',
  '1',
  '{"a":',
  '\u00ff',
  ' ',
]

function randomBody(seed: number, format: Preparation['format']): Buffer {
  const random = generator(seed)
  // Mostly good pieces, or almost every body would be rejected for its first one.
  const piece = () => pieces[Math.floor(random() ** 6 * pieces.length)]!
  const texts = Array.from({ length: Math.floor(random() * 50) }, piece)
  const text = format === 'json' ? `[${texts.join(',')}]` : texts.join('\n')
  // Latin-1: now and then it is not UTF-8.
  return Buffer.from(random() < 0.1 ? text.slice(0, random() * text.length) : text, 'latin1')
}

function verdictOf(error: unknown): unknown {
  if (!(error instanceof ApiError)) throw error
  const { code, status, message, details, headers } = error
  return { code, status, message, details, headers }
}

t.test(
  'a thread gives what the main thread gives: the same bytes, the same errors in the same order',
  async (t) => {
    const parsers = openBodyParsers(512 * MiB)
    t.teardown(() => parsers.close())
    const different: string[] = []
    const seen = new Map<string, number>()
    for (let seed = 1; seed <= 3_000; seed++) {
      const format = seed % 2 === 0 ? 'json' : 'ndjson'
      const asked = { ...preparation, format, withHash: seed % 3 === 0 } as const
      const body = randomBody(seed, format)
      let here: unknown
      try {
        here = prepareBody(body, asked, () => {})
      } catch (error) {
        here = verdictOf(error)
      }
      const there = await parsers
        .prepare(
          Buffer.from(body),
          { ...asked, limits: { ...limits, maxValues: 0 } },
          { workspaceId: 'w', pipeId: 'p' },
        )
        .catch(verdictOf)
      const kind =
        typeof here === 'object' && here !== null && 'code' in here ? String(here.code) : 'prepared'
      seen.set(kind, (seen.get(kind) ?? 0) + 1)
      if (JSON.stringify(here) !== JSON.stringify(there)) different.push(`seed ${seed}: ${body}`)
    }
    t.same(different, [])
    for (const kind of [
      'prepared',
      'invalid_payload',
      'empty_payload',
      'payload_too_large',
      'batch_too_large',
      'missing_required_fields',
    ])
      t.ok((seen.get(kind) ?? 0) > 5, `${kind}: ${seen.get(kind)}`)
  },
)

t.test('the main thread leaves a body with many values alone, whatever its size', async (t) => {
  const few = { ...preparation, limits: { ...limits, maxValues: 10 } }
  const result = (text: string, format: Preparation['format'] = 'json') =>
    prepareBody(Buffer.from(text), { ...few, format }, () => {}) === null
  t.notOk(result('{"a":[1,2,3,4,5,6]}'))
  for (const text of ['{"a":[1,2,3,4,5,6,7,8,9,10]}', '{"a":[[],[[]],[[[]],[]],[]]}'])
    t.ok(result(text), text)
  t.ok(result('{"a":1}\n'.repeat(10), 'ndjson'))
  t.throws(() => result('["\u00ff",'), { code: 'invalid_payload' }, 'what is wrong is said here')
})

t.test('a body that needs more memory than a thread may have is 413; the next is parsed', async (t) => {
  const parsers = openBodyParsers(24 * MiB)
  t.teardown(() => parsers.close())
  const large = { ...preparation, pipeMaxRecords: null, limits: { ...limits, maxKeys: 1e9 } }
  // With the key that enrichment sets, or the scanner would take it and make no values.
  const hostile = Buffer.from(`{"ts":0,"a":[${Array(1_000_000).fill('{}').join(',')}]}`)
  const results = await Promise.allSettled([
    ...Array.from({ length: 3 }, () =>
      parsers.prepare(Buffer.from(hostile), large, { workspaceId: 'a', pipeId: 'p' }),
    ),
    parsers.prepare(Buffer.from('{"a":1}'), large, { workspaceId: 'b', pipeId: 'q' }),
  ])
  const attacks = results.slice(0, 3).map((result) => result.status === 'rejected' && result.reason.code)
  t.same(attacks, Array(3).fill('payload_too_large'))
  t.equal(results[3]?.status, 'fulfilled')
})

t.test('bodies of one pipe wait in a bounded line; beyond it 503, and other pipes are served', async (t) => {
  const parsers = openBodyParsers(512 * MiB)
  t.teardown(() => parsers.close())
  const results = await Promise.allSettled([
    ...Array.from({ length: 200 }, () =>
      parsers.prepare(Buffer.from('{"a":1}'), preparation, { workspaceId: 'a', pipeId: 'p' }),
    ),
    parsers.prepare(Buffer.from('{"a":1}'), preparation, { workspaceId: 'b', pipeId: 'q' }),
  ])
  const rejected = results.filter((result) => result.status === 'rejected')
  t.ok(rejected.length > 0 && rejected.length <= 200 - 128)
  for (const { reason } of rejected)
    t.match(reason, { code: 'buffer_unavailable', headers: { 'Retry-After': '5' } })
  t.equal(results.at(-1)?.status, 'fulfilled')
})

t.test('a thread without work ends with its memory; the next body starts another', async (t) => {
  const threads = () => readdirSync('/proc/self/task').length
  const parse = (parsers: BodyParsers) =>
    parsers
      .prepare(Buffer.from('{"a":1}'), preparation, { workspaceId: 'a', pipeId: 'p' })
      .then(({ recordCount }) => recordCount)
  const kept = openBodyParsers(512 * MiB, 1, 3_600_000)
  t.teardown(() => kept.close())
  await parse(kept)
  const withOne = threads()
  await parse(kept)
  t.equal(threads(), withOne, 'one that is to be kept takes the next body too (negative control)')

  const parsers = openBodyParsers(512 * MiB, 1, 1)
  t.teardown(() => parsers.close())
  for (let round = 0; round < 3; round++) {
    t.equal(await parse(parsers), 1)
    await until('it has ended', () => threads() === withOne)
  }
  const bodies = Array.from({ length: 50 }, () => parse(parsers))
  t.same(await Promise.all(bodies), Array(50).fill(1), 'none is lost with a thread that ends')
})
