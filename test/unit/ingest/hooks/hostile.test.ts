/** Requests of an unknown sender: random bytes, huge headers and thousands of signatures neither throw nor pass. */
import t from 'tap'
import { bodyOf } from '../../../../src/ingest/hooks/body.ts'
import type { HookRequest } from '../../../../src/ingest/hooks/request.ts'
import { verify } from '../../../../src/ingest/hooks/verify.ts'
import { type HookExample, hookExamples, hookRequest } from '../../../support/hooks.ts'

const examples = Object.entries<HookExample>(hookExamples)

/** mulberry32: the same requests in every run. */
function randoms(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const alphabet = [
  '{',
  '}',
  '"',
  '\\',
  ':',
  ',',
  '=',
  '&',
  '%',
  'v1,',
  'v0=',
  't=',
  'sha256=',
  ' ',
  '0',
  'ff',
  'é',
  '\0',
  '\u{1f600}',
  'payload=',
]

function textOf(random: () => number, most: number): string {
  const length = Math.floor(random() * most)
  return Array.from({ length }, () =>
    random() < 0.5 ? String.fromCharCode(random() * 256) : alphabet[Math.floor(random() * alphabet.length)],
  ).join('')
}

t.test('random headers, queries, tokens and bodies: never an error, never accepted', async (t) => {
  const random = randoms(20261128)
  const types = ['application/json', 'application/x-www-form-urlencoded', 'text/plain;charset=', '']
  let requests = 0
  for (let round = 0; round < 3_000; round++) {
    for (const [name, example] of examples) {
      const made = new Map<string, string | undefined>()
      const headers = (header: string) => {
        if (!made.has(header)) {
          const genuine = example.headers[header] ?? ''
          const options = [
            genuine,
            genuine.slice(0, random() * 20) + textOf(random, 30),
            textOf(random, 200),
            undefined,
          ]
          made.set(header, header === 'content-type' ? types[round % 4] : options[Math.floor(random() * 4)])
        }
        return made.get(header)
      }
      const body = Buffer.from(textOf(random, 60), random() < 0.5 ? 'latin1' : 'utf8')
      const request: HookRequest = {
        method: random() < 0.8 ? 'POST' : 'GET',
        headers,
        query: textOf(random, 40),
        body,
        now: example.nowMs,
        token: random() < 0.5 ? textOf(random, 40) : undefined,
      }
      const verdict = verify(example.source, request)
      // The password is genuine in a quarter of them.
      const hasPassword = name === 'basic' && headers('authorization') === example.headers.authorization
      if (verdict.ok && !hasPassword) t.fail(`${name}: ${JSON.stringify({ ...request, made: [...made] })}`)
      const found = bodyOf(example.source, headers('content-type') ?? '', body)
      if (!('json' in found || 'problem' in found)) t.fail('neither a body nor a problem')
      if (
        'json' in found &&
        types[round % 4] === types[1] &&
        !found.json.equals(body) &&
        !body.includes('payload=')
      )
        JSON.parse(found.json.toString())
      requests++
    }
  }
  t.equal(requests, 3_000 * examples.length)
})

t.test('negative control: the genuine values in the same harness are accepted', async (t) => {
  for (const [name, example] of examples) t.ok(verify(example.source, hookRequest(example)).ok, name)
})

t.test('huge headers, thousands of signatures and long queries are malformed, not work', async (t) => {
  const fill = (unit: string) => unit.repeat(Math.ceil(1_000_000 / unit.length))
  for (const [name, example] of examples) {
    for (const header of example.covered) {
      for (const unit of [
        'a',
        '=',
        ',',
        ' v1,',
        `v1,${'A'.repeat(43)}= `,
        `v1=${'0'.repeat(64)},`,
        't=1,',
        '\u{1f600}',
      ]) {
        const headers = { [header]: `${example.headers[header]}${fill(unit)}` }
        const verdict = verify(example.source, hookRequest(example, { headers }))
        t.match(verdict, { ok: false }, `${name} ${header} ${unit}`)
      }
    }
  }
  const { twilio, secret_url } = hookExamples
  t.match(verify(twilio.source, hookRequest(twilio, { query: fill('a=b&') })), { ok: false })
  t.match(verify(secret_url.source, hookRequest(secret_url, { token: fill('a') })), { ok: false })
})

t.test('each prefix of a genuine request is rejected', async (t) => {
  for (const [name, example] of examples) {
    for (const header of example.covered) {
      const text = example.headers[header]!
      for (let length = 0; length < text.length; length++) {
        const headers = { [header]: text.slice(0, length) }
        if (verify(example.source, hookRequest(example, { headers })).ok) t.fail(`${name} ${headers[header]}`)
      }
    }
    t.pass(name)
  }
})
