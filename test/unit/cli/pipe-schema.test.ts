/** `pipectl pipes schema …`: from stored records or a file to a schema that is set, shown, compared and removed. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { sharedDaemon } from '../../support/shared-daemon.ts'

const daemon = await sharedDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const schema = (args: string[], more: object = {}) => runCli(['pipes', 'schema', ...args], { env, ...more })
const file = (name: string, content: string | Buffer) => {
  const full = path.join(home, name)
  writeFileSync(full, content)
  return full
}
const newPipe = async (name: string) => {
  const { body } = await daemon.api('POST', '/v1/pipes', { pipe_name: name, pipe_add_ingest_ts: true })
  return String(Object(body).pipe_id)
}
const pipeOf = async (id: string) => Object((await daemon.api('GET', `/v1/pipes/${id}`)).body).pipe

t.test('inferred from stored records, set, shown, changed, compared and removed', async (t) => {
  const id = await newPipe('orders')
  const none = await schema(['infer', 'orders'])
  t.equal(none.code, 6, none.stderr)
  t.match(none.stderr, /there are no records to read/)
  await daemon.ingest(id, [
    { id: 1, total: 1.5 },
    { id: 2, total: 3, note: 'x' },
  ])
  const inferred = await schema(['infer', 'orders', '-o', 'table'])
  t.equal(inferred.code, 0, inferred.stderr)
  t.match(inferred.stdout, /id +integer +yes +-\n.*total +number +yes +-\n.*note +string +no/s)
  t.match(inferred.stderr, /From 2 records: the newest of pipe orders/)
  const expected = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { id: { type: 'integer' }, total: { type: 'number' }, note: { type: 'string' } },
    required: ['id', 'total'],
  }
  const piped = await schema(['infer', 'orders', '--records', '2'])
  t.same(JSON.parse(piped.stdout), expected, 'JSON without a terminal')
  t.equal((await pipeOf(id)).pipe_schema, null, 'nothing was set')

  const set = await schema(['infer', 'orders', '--set', '--on-mismatch', 'tag'])
  t.equal(set.code, 0, set.stderr)
  t.match(set.stderr, /accepted with their errors under schema_errors/)
  t.match(await pipeOf(id), { pipe_schema: expected, pipe_schema_on_mismatch: 'tag' })
  const again = await schema(['infer', 'orders', '--set'])
  t.equal(again.code, 2, 'a schema is not replaced without a question')
  t.match(again.stderr, /--yes/)

  const shown = await schema(['show', 'orders'])
  t.same(JSON.parse(shown.stdout), expected)
  const closed = file('closed.json', JSON.stringify({ ...expected, additionalProperties: false }))
  const changed = await schema(['set', 'orders', '-f', closed, '--on-mismatch', 'reject'])
  t.equal(changed.code, 0, changed.stderr)
  t.match(changed.stderr, /rejected with their request/)
  const versions = await schema(['versions', 'orders'])
  t.match(versions.stdout, /2 .*reject +\+\d+ -\d+\n1 .*tag +\+\d+ -0/s)
  const diff = await schema(['versions', 'orders', '--diff'])
  t.match(diff.stdout, /version 2 .*\+ {3}"additionalProperties": false/s)
  const first = await schema(['show', 'orders', '1', '-o', 'json'])
  t.same(JSON.parse(first.stdout), expected)
  t.equal((await schema(['show', 'orders', '9'])).code, 3)

  const types = await schema(['types', 'orders'])
  t.equal(types.stdout, 'export type OrdersRecord = {\n  id: number\n  total: number\n  note?: string\n}\n')
  t.equal((await schema(['remove', 'orders', '--yes'])).code, 0)
  t.equal((await pipeOf(id)).pipe_schema, null)
  const gone = await schema(['show', 'orders'])
  t.equal(gone.code, 6)
  t.match(gone.stderr, /pipe orders has no schema.*infer orders/s)
})

t.test('inferred from files, without a daemon', async (t) => {
  const nowhere = { env: { ...env, PIPECTL_URL: 'http://127.0.0.1:1' } }
  const lines = Array.from({ length: 200 }, (_, id) => `{"id":${id},"state":"${id % 2 ? 'new' : 'paid'}"}`)
  const zipped = file('records.ndjson.gz', gzipSync(lines.join('\n')))
  const target = path.join(home, 'out.json')
  const inferred = await schema(['infer', '-f', zipped, '--export', target, '--minimums'], nowhere)
  t.equal(inferred.code, 0, inferred.stderr)
  const { properties } = JSON.parse(readFileSync(target, 'utf8'))
  t.same(properties, {
    id: { type: 'integer', minimum: 0 },
    state: { type: 'string', enum: ['new', 'paid'] },
  })
  const exists = await schema(['infer', '-f', zipped, '--export', target], nowhere)
  t.equal(exists.code, 2)
  t.match(exists.stderr, /it exists already/)
  const array = file('records.json', '[{"at":"2026-01-01T00:00:00Z"},\n {"at":null,"more":1}]')
  const plain = await schema(
    ['infer', '-f', array, '--no-formats', '--additional-properties', 'false'],
    nowhere,
  )
  t.match(JSON.parse(plain.stdout), {
    properties: { at: { type: ['string', 'null'] }, more: { type: 'integer' } },
    additionalProperties: false,
  })
  const bad = await schema(['infer', '-f', file('bad.ndjson', '{"a":1}\n[1]\n')], nowhere)
  t.equal(bad.code, 2)
  t.match(bad.stderr, /bad\.ndjson, line 2: it is not a JSON object/)
  const types = await schema(['types', '--schema', target, '--name', 'shop order'], nowhere)
  t.match(types.stdout, /^export type ShopOrderRecord = \{\n {2}id\?*: number\n {2}state: "new" \| "paid"/)
})

t.test('records of a file and stored records are checked', async (t) => {
  const nowhere = { env: { ...env, PIPECTL_URL: 'http://127.0.0.1:1' } }
  const rules = file(
    'rules.json',
    '{"properties":{"id":{"type":"integer"},"code":{"type":"string","pattern":"^[A-Z]+$"}}}',
  )
  const good = file('good.ndjson', '{"id":1,"code":"AT"}\n{"id":2}\n')
  const passed = await schema(['check', '--schema', rules, '-f', good], nowhere)
  t.equal(passed.code, 0, passed.stderr)
  t.match(passed.stderr, /All of 2 records match/)
  const input = '{"id":1}\n{"id":"x","code":"low"}\n{"id":1.5}\n'
  const failed = await schema(['check', '--schema', rules, '-f', '-'], { ...nowhere, input })
  t.equal(failed.code, 1)
  t.match(
    failed.stdout,
    /line 2 +\/id +must be a whole number, not a string\nline 2 +\/code .*\nline 3 +\/id/,
  )
  t.match(failed.stderr, /2 of 3 records do not match/)
  t.notMatch(failed.stdout + failed.stderr, /low/, 'no value is shown')

  const id = await newPipe('checked')
  const missing = await schema(['check', 'checked', '-f', good])
  t.equal(missing.code, 6)
  t.match(missing.stderr, /pipe checked has no schema/)
  await daemon.ingest(id, [{ id: 1 }, { id: 'x' }])
  const stored = await schema(['check', 'checked', '--schema', rules, '--stored', '100', '-o', 'json'])
  t.equal(stored.code, 1, stored.stderr)
  t.match(JSON.parse(stored.stdout), {
    records_seen: 2,
    mismatching: 1,
    errors: [{ path: '/id', records: 1 }],
    mismatches: [{ record: /^\S+ record 1$/ }],
  })
  t.equal((await schema(['set', 'checked', '-f', rules])).code, 0)
  t.equal((await schema(['check', 'checked', '-f', good])).code, 0)
  t.equal((await schema(['check', 'checked', '--stored', '2'])).code, 1)

  const pattern = file('pattern.json', '{"properties":{"a":{"pattern":"(?=x)"}}}')
  const wrong = await schema(['check', '--schema', pattern, '-f', good], nowhere)
  t.equal(wrong.code, 2)
  t.match(wrong.stderr, /\/properties\/a\/pattern must be a regular expression of RE2/)
  for (const args of [['checked'], ['--stored', '5'], ['-f', good], ['checked', '-f', good, '--stored', '5']])
    t.equal((await schema(['check', ...args])).code, 2, args.join(' '))
})

t.test('a file that is not a schema, and options that do not fit', async (t) => {
  await newPipe('others')
  const wrong = file('wrong.json', '{"properties":{"a":{"typ":"string"}}}')
  const set = await schema(['set', 'others', '-f', wrong])
  t.equal(set.code, 2)
  t.match(set.stderr, /\/properties\/a\/typ is not a keyword/)
  t.equal((await schema(['set', 'others', '-f', file('no.json', 'no')])).code, 2)
  t.equal((await schema(['infer'])).code, 2)
  t.equal((await schema(['infer', '--set', '-f', wrong])).code, 2)
  t.equal((await schema(['infer', 'others', '--on-mismatch', 'tag'])).code, 2)
  t.equal((await schema(['infer', 'others', '--records', '5', '-f', wrong])).code, 2)
  t.equal((await schema(['types'])).code, 2)
  t.equal((await schema(['infer', 'nope'])).code, 3)
  t.equal((await schema(['infer', 'others', '--records', '0'])).code, 2)
})
