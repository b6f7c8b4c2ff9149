import t from 'tap'
import { bodyOf } from '../../../../src/ingest/hooks/body.ts'
import { hookExamples } from '../../../support/hooks.ts'

const form = 'application/x-www-form-urlencoded'
const { twilio, slack, github, stripe } = hookExamples
const jsonOf = (source: Parameters<typeof bodyOf>[0], type: string, body: string | Buffer) => {
  const found = bodyOf(source, type, Buffer.from(body))
  return 'json' in found ? found.json.toString() : null
}

t.test('JSON stays as it was sent, byte by byte', async (t) => {
  const body = '{ "n": 1.10, "big": 12345678901234567890 }'
  for (const type of [
    'application/json',
    'application/json; charset=utf-8',
    'text/plain',
    '',
    'application/cloudevents+json',
  ])
    t.equal(jsonOf(stripe.source, type, body), body, type)
})

t.test('other types and character sets are not read', async (t) => {
  for (const type of [
    'multipart/form-data; boundary=x',
    'text/xml',
    'application/json; charset=utf-16',
    `${form}; charset=latin1`,
  ])
    t.equal(jsonOf(stripe.source, type, '{}'), null, type)
})

t.test('the fields of a form become strings of one object, in order; repeated ones an array', async (t) => {
  t.equal(
    jsonOf(twilio.source, form, 'b=1&a=%2B1+2&b=2&2=x&1=y'),
    '{"b":["1","2"],"a":"+1 2","2":"x","1":"y"}',
  )
  t.equal(jsonOf(twilio.source, `${form}; charset=UTF-8`, twilio.body)?.includes('"To":"+18005551212"'), true)
  t.equal(jsonOf(twilio.source, form, ''), '{}')
  t.equal(jsonOf(twilio.source, form, '&&a&=b&c=d=e&'), '{"a":"","":"b","c":"d=e"}')
  t.equal(jsonOf(twilio.source, form, '__proto__=1&constructor=2'), '{"__proto__":"1","constructor":"2"}')
  t.equal(jsonOf(twilio.source, form, 'a[b]=1'), '{"a[b]":"1"}')
})

t.test(
  'percent-encoding: every byte, incomplete ones as they are, and nothing that is not UTF-8',
  async (t) => {
    t.equal(jsonOf(twilio.source, form, 'a=%F0%9F%98%80%0a%22%5C%00'), '{"a":"😀\\n\\"\\\\\\u0000"}')
    t.equal(
      jsonOf(twilio.source, form, 'a=100%&b=%4&c=%zz&d=%%41'),
      '{"a":"100%","b":"%4","c":"%zz","d":"%A"}',
    )
    t.equal(jsonOf(twilio.source, form, 'a=ä'), '{"a":"ä"}')
    for (const bad of ['a=%ff', '%c3=a', 'a=%ed%a0%80', 'a=%c3&b=%a4'])
      t.equal(jsonOf(twilio.source, form, bad), null, bad)
    t.equal(jsonOf(twilio.source, form, Buffer.from('a=\xe4', 'latin1')), null)
  },
)

t.test('the JSON in payload= of Slack and GitHub is the record; of others it is a field', async (t) => {
  const payload = `payload=${encodeURIComponent('{"type":"block_actions","n":1.10}')}`
  for (const { source } of [slack, github])
    t.equal(jsonOf(source, form, payload), '{"type":"block_actions","n":1.10}')
  t.equal(jsonOf(slack.source, form, 'payload=%7B%7D&b=1'), '{"payload":"{}","b":"1"}')
  t.equal(jsonOf(twilio.source, form, payload), '{"payload":"{\\"type\\":\\"block_actions\\",\\"n\\":1.10}"}')
  t.equal(jsonOf(slack.source, form, slack.body)?.startsWith('{"token":"xyzz0WbapA4vBCDEFasx0q6G",'), true)
})

t.test('the limits of fields and bytes', async (t) => {
  const fields = (count: number) => Array.from({ length: count }, (_, at) => `f${at}=`).join('&')
  t.ok(jsonOf(twilio.source, form, fields(1000)))
  t.equal(jsonOf(twilio.source, form, fields(1001)), null)
  t.ok(jsonOf(twilio.source, form, '&'.repeat(1000)))
  t.equal(jsonOf(twilio.source, form, '&'.repeat(1001)), null, 'empty parts take time too')
  t.ok(jsonOf(twilio.source, form, `a=${'x'.repeat(1024 * 1024 - 2)}`))
  t.equal(jsonOf(twilio.source, form, `a=${'x'.repeat(1024 * 1024 - 1)}`), null)
})
