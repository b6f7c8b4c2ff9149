/** Object-store key templates (docs/dev/contract.md#destinations). */
import t from 'tap'
import { objectStore } from '../../../src/contract/destinations/object-store.fields.ts'
import {
  keyInEpoch,
  keyTemplateTokens,
  parseKeyTemplate,
  renderKey,
} from '../../../src/contract/key-template.ts'

const defaultKeyTemplate = objectStore.fields.key_template.default

const values = {
  pipe_name: 'events',
  pipe_id: 'p',
  destination_id: 'd',
  yyyy: '2026',
  MM: '01',
  dd: '02',
  HH: '03',
  mm: '04',
  ss: '05',
  first_seq: '10',
  last_seq: '20',
  msg_id: 'm',
  epoch: '2',
  ext: 'ndjson.gz',
}

t.test('the default template is right and renders', async (t) => {
  const parsed = parseKeyTemplate(defaultKeyTemplate)
  if (!parsed.ok) throw new Error(parsed.message)
  t.equal(renderKey(parsed.parts, values), 'events/date=2026-01-02/hour=03/10-20-d.ndjson.gz')
})

t.test('every token is known', async (t) => {
  for (const token of keyTemplateTokens) t.equal(parseKeyTemplate(`{first_seq}{${token}}`).ok, true, token)
})

t.test('a bad token is named', async (t) => {
  for (const token of ['year', 'YYYY', '', ' first_seq', 'constructor', '__proto__'])
    t.match(parseKeyTemplate(`a/{first_seq}-{${token}}`), {
      ok: false,
      message: `has an unknown token {${token}};`,
    })
})

t.test('{first_seq} must be there', async (t) => {
  t.match(parseKeyTemplate('{pipe_name}/{last_seq}'), { ok: false, message: 'must contain {first_seq}' })
})

t.test('a brace without its counterpart is rejected', async (t) => {
  for (const template of ['{first_seq', '{first_seq}}', '{{first_seq}', 'a}{first_seq}'])
    t.equal(parseKeyTemplate(template).ok, false, template)
})

t.test('from the second epoch on, keys that could be an old one say which epoch they are of', async (t) => {
  for (const [template, key] of [
    [defaultKeyTemplate, 'events/date=2026-01-02/hour=03/10-20-d.ndjson.gz'],
    ['{pipe_name}/{first_seq}.{ext}', 'events/10-e2.ndjson.gz'],
    ['{first_seq}.log.{ext}', '10.log-e2.ndjson.gz'],
    ['v1.2/{first_seq}', 'v1.2/10-e2'],
    ['v1.2/{first_seq}.bin', 'v1.2/10-e2.bin'],
    ['e{epoch}/{first_seq}.{ext}', 'e2/10.ndjson.gz'],
  ] as const) {
    const parsed = parseKeyTemplate(template)
    if (!parsed.ok) throw new Error(parsed.message)
    const rendered = renderKey(parsed.parts, values)
    const extension = values.ext
    t.equal(keyInEpoch(rendered, parsed.parts, { epoch: 2, extension }), key)
    t.equal(keyInEpoch(rendered, parsed.parts, { epoch: 1, extension }), rendered, 'the first: as ever')
  }
})

t.test('a template leads nowhere but into the bucket', async (t) => {
  for (const template of [
    '/{first_seq}',
    '../{first_seq}',
    'a/../{first_seq}',
    'a/./{first_seq}',
    '{first_seq}/..',
    'a\\{first_seq}',
    'a\u0000{first_seq}',
    'a\n{first_seq}',
    'a\u009b{first_seq}',
    'a\u2028{first_seq}',
  ])
    t.equal(parseKeyTemplate(template).ok, false, `rejected: ${encodeURIComponent(template)}`)
  for (const template of ['a..b/{first_seq}', '.hidden/{first_seq}', '...{first_seq}', 'ä/日/{first_seq}'])
    t.equal(parseKeyTemplate(template).ok, true, `taken: ${encodeURIComponent(template)}`)
})
