/** Object-store key templates (contract "destination_type and its config"). */
import t from 'tap'
import { defaultKeyTemplate } from '../../src/contract/destination.ts'
import { keyTemplateTokens, parseKeyTemplate, renderKey } from '../../src/contract/key-template.ts'

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
  t.match(parseKeyTemplate('{pipe_name}/{last_seq}'), { ok: false, message: 'must hold {first_seq}' })
})

t.test('a brace without its counterpart is refused', async (t) => {
  for (const template of ['{first_seq', '{first_seq}}', '{{first_seq}', 'a}{first_seq}'])
    t.equal(parseKeyTemplate(template).ok, false, template)
})
