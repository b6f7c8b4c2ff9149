/**
 * Schemas of pipes on the real daemon (docs/dev/contract.md#schemas), on each HTTP engine and with threads of ingest:
 * which requests are rejected, which records are tagged, and what is counted.
 */
import { createHmac, randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Answer } from '../support/api-client.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'

const environments: Record<string, Record<string, string>> = {
  uws: { PIPECTL_HTTP_ENGINE: 'uws', PIPECTL_INGEST_WORKERS: '1' },
  'threads of ingest': { PIPECTL_HTTP_ENGINE: 'uws', PIPECTL_INGEST_WORKERS: '3' },
  node: { PIPECTL_HTTP_ENGINE: 'node', PIPECTL_INGEST_WORKERS: '1' },
}

for (const [name, env] of Object.entries(environments))
  t.test(name, async (t) => {
    const daemon = await startDaemon({ env })
    t.teardown(() => daemon.close())
    for (const [what, test] of Object.entries(tests)) await t.test(what, (t) => test(t, daemon))
  })

const schema = {
  type: 'object',
  properties: {
    id: { type: 'string', pattern: '^o-' },
    n: { type: 'integer', minimum: 0 },
    at: { type: 'string', format: 'date-time' },
  },
  required: ['id'],
}

async function createPipe(daemon: TestDaemon, fields: object): Promise<string> {
  const body = { pipe_name: `p${randomUUID()}`, pipe_schema: schema, ...fields }
  const answer = await daemon.api('POST', '/v1/pipes', body)
  if (answer.status !== 201) throw new Error(answer.text)
  return String(answer.body.pipe_id)
}

function send(
  daemon: TestDaemon,
  id: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return daemon.api('POST', `/v1/ingest/${id}`, body, { headers })
}

const ndjson = { 'content-type': 'application/x-ndjson' }

async function stored(daemon: TestDaemon, { body }: Answer): Promise<Record<string, unknown>[]> {
  const answer = await daemon.api('GET', `/v1/messages/${body.msg_id}`)
  return Object(answer.body).records
}

async function usageOf(daemon: TestDaemon, id: string): Promise<Record<string, unknown>> {
  const { body } = await daemon.api('GET', '/v1/pipes')
  return Object(body.usage_by_pipe)[id]
}

async function counted(daemon: TestDaemon, id: string, expected: object): Promise<void> {
  await until(`mismatches ${JSON.stringify(expected)}`, async () => {
    const { schema_mismatches } = (await daemon.api('GET', `/v1/pipes/${id}/usage?hours=1`)).body
    return JSON.stringify(schema_mismatches) === JSON.stringify(expected)
  })
}

const tests: Record<string, (t: Test, daemon: TestDaemon) => Promise<void>> = {
  'reject: nothing of the request is stored, and the first errors are named': async (t, daemon) => {
    const id = await createPipe(daemon, {})
    t.equal((await send(daemon, id, { id: 'o-1', n: 1, at: '2026-01-31T12:00:00Z' })).status, 202)
    const answer = await send(daemon, id, [{ id: 'o-2' }, { id: 'secret', n: -1 }, { n: 1 }])
    t.equal(answer.status, 400)
    t.match(answer.body, {
      error: 'schema_mismatch',
      message: '2 of 3 records do not match the schema of the pipe; see errors. Nothing was stored.',
      errors: [
        { record: 1, path: '/id', message: 'must match the pattern ^o-' },
        { record: 1, path: '/n', message: 'must be at least 0' },
        { record: 2, path: '/id', message: 'is required' },
      ],
    })
    t.notMatch(answer.text, 'secret')
    t.match(await send(daemon, id, '{"id":"o-3"}\n{"id":3}\n', ndjson), { body: { errors: [{ record: 1 }] } })
    t.equal((await send(daemon, id, '{"id":"o-3"}\n\n{"id":"o-4"}', ndjson)).status, 202)
    await counted(daemon, id, { rejected: 3 })
    t.match(await usageOf(daemon, id), {
      ingest_records: 3,
      rejected_requests: 2,
      schema_mismatches: { rejected: 3 },
    })
  },

  'tag: mismatching records carry their errors, the others no such member': async (t, daemon) => {
    const id = await createPipe(daemon, { pipe_schema_on_mismatch: 'tag', pipe_schema_tag_field: 'why' })
    const answer = await send(
      daemon,
      id,
      '[{"id":"o-1","why":"mine","n":1.0},{"id":"x","why":1},{},{"why":2}]',
    )
    t.equal(answer.status, 202)
    const [first, second, third, fourth] = await stored(daemon, answer)
    t.match(first, { id: 'o-1', why: undefined, n: 1, ingest_ts: String })
    t.match(second, { id: 'x', why: ['/id: must match the pattern ^o-'] })
    t.match(third, { why: ['/id: is required'] })
    t.match(fourth, { why: ['/id: is required'] })
    const bare = await createPipe(daemon, { pipe_schema_on_mismatch: 'tag', pipe_add_ingest_ts: false })
    t.same(
      await stored(daemon, await send(daemon, bare, [{ schema_errors: 1 }, { id: 'o-1', schema_errors: 1 }])),
      [{ schema_errors: ['/id: is required'] }, { id: 'o-1' }],
    )
    await counted(daemon, id, { tagged: 3 })
  },

  'large bodies are checked in a thread with the same result': async (t, daemon) => {
    const id = await createPipe(daemon, {})
    const many = Array.from({ length: 9_000 }, (_, n) => ({ id: `o-${n}`, n, text: 'x'.repeat(200) }))
    t.equal((await send(daemon, id, many)).status, 202)
    const answer = await send(daemon, id, [...many, { id: 'o-1', n: 'x' }])
    t.match(answer, { status: 400, body: { errors: [{ record: 9_000, path: '/n' }] } })
    const tagging = await createPipe(daemon, { pipe_schema_on_mismatch: 'tag' })
    const tagged = await stored(daemon, await send(daemon, tagging, [{ id: 1 }, ...many]))
    t.match(tagged[0], { schema_errors: ['/id: must be a string, not a whole number'] })
    t.equal(tagged[1]?.schema_errors, undefined)
  },

  'webhooks: the record that the webhook becomes is checked': async (t, daemon) => {
    const source = { type: 'github', secrets: ['a secret of github'] }
    const id = await createPipe(daemon, { pipe_source: source })
    const hook = (body: string) => {
      const signature = createHmac('sha256', 'a secret of github').update(body).digest('hex')
      const headers = { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${signature}` }
      return daemon.api('POST', `/v1/hooks/${id}`, body, { key: null, headers })
    }
    t.equal((await hook('{"id":"o-1"}')).status, 202)
    t.match(await hook('{"id":1}'), { status: 400, body: { error: 'schema_mismatch' } })
    const { pipe_source_token } = (
      await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_source: { type: 'secret_url' } })
    ).body
    t.match(await daemon.api('POST', `/v1/hooks/${id}/${pipe_source_token}`, '{"id":1}', { key: null }), {
      status: 400,
      body: { error: 'schema_mismatch' },
    })
  },

  'Idempotency-Key: a repeat gets the first response although the schema has changed': async (t, daemon) => {
    const id = await createPipe(daemon, {})
    const headers = { 'idempotency-key': 'k1' }
    const first = await send(daemon, id, { id: 'o-1' }, headers)
    await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema: { required: ['other'] } })
    const repeated = await send(daemon, id, { id: 'o-1' }, headers)
    t.match(repeated, { status: 202, body: { msg_id: first.body.msg_id } })
    t.match(await send(daemon, id, { id: 'o-2' }, headers), { status: 422 }, 'another body with the same key')
    t.match(await send(daemon, id, { id: 'o-2' }, { 'idempotency-key': 'k2' }), { status: 400 })
    await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema_on_mismatch: 'tag' })
    const tagged = await send(daemon, id, { id: 'o-2' }, { 'idempotency-key': 'k2' })
    t.match(tagged, { status: 202 }, 'a rejected request did not use its key')
    t.equal(
      (await send(daemon, id, { id: 'o-2' }, { 'idempotency-key': 'k2' })).body.msg_id,
      tagged.body.msg_id,
    )
    await counted(daemon, id, { rejected: 1, tagged: 1 })
  },

  'a changed schema applies to the next request': async (t, daemon) => {
    const id = await createPipe(daemon, { pipe_schema: null })
    for (let round = 0; round < 5; round++) {
      t.equal((await send(daemon, id, { id: 1 })).status, 202)
      await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema: schema })
      t.equal((await send(daemon, id, { id: 1 })).status, 400)
      await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema: null })
    }
  },

  'the metric counts records by result': async (t, daemon) => {
    const id = await createPipe(daemon, {})
    await send(daemon, id, [{}, {}])
    await until('the metric is shown', async () => {
      const text = await (await fetch(daemon.metricsUrl)).text()
      const lines = text
        .split('\n')
        .filter((line) => line.startsWith('pipectl_schema_mismatches_total') && line.includes(id))
      return lines.some((line) => line.includes('result="rejected"') && line.endsWith(' 2'))
    })
    t.pass('the metric is shown')
  },

  'a schema is verified: each fault names its path, and nothing is stored': async (t, daemon) => {
    const wrong = {
      properties: { a: { patternProperties: {}, pattern: '(' }, b: { pattern: '(?:a{1000}){1}[0-9]{900}' } },
    }
    const answer = await daemon.api('POST', '/v1/pipes', {
      pipe_name: `p${randomUUID()}`,
      pipe_schema: wrong,
    })
    t.equal(answer.status, 400)
    const errors = Object(answer.body.errors)
    t.match(
      errors['pipe_schema.properties.a.patternProperties'],
      /^\/properties\/a\/patternProperties is not a keyword/,
    )
    t.match(errors['pipe_schema.properties.a.pattern'], /missing closing \)/)
    const large = { properties: { b: { pattern: '(?:a{1000})[0-9]{900}' } } }
    const id = await createPipe(daemon, {})
    const refused = await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema: large })
    t.match(Object(refused.body.errors)['pipe_schema.properties.b.pattern'], /instructions/)
    const { pipe } = (await daemon.api('GET', `/v1/pipes/${id}`)).body
    t.same(Object(pipe).pipe_schema, schema)
    const colliding = { pipe_schema_on_mismatch: 'tag', pipe_schema_tag_field: 'ingest_ts' }
    t.match(await daemon.api('PATCH', `/v1/pipes/${id}`, colliding), {
      status: 400,
      body: { errors: { pipe_schema_tag_field: /must differ from pipe_ingest_ts_field/ } },
    })
  },

  'the last ten versions are kept, with who changed them': async (t, daemon) => {
    const id = await createPipe(daemon, { pipe_schema: null })
    const versions = async () => (await daemon.api('GET', `/v1/pipes/${id}/schema/versions`)).body.versions
    t.same(await versions(), [])
    for (let n = 1; n <= 12; n++)
      await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema: { maxProperties: n } })
    await daemon.api('PATCH', `/v1/pipes/${id}`, {
      pipe_schema: { maxProperties: 12 },
      pipe_description: 'same',
    })
    await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema_on_mismatch: 'tag' })
    const kept = Object(await versions())
    t.equal(kept.length, 10)
    t.match(kept[0], {
      version: 13,
      changed_ts: String,
      changed_by: { kind: 'key' },
      pipe_schema: { maxProperties: 12 },
      pipe_schema_on_mismatch: 'tag',
    })
    t.match(kept[9], { version: 4, pipe_schema: { maxProperties: 4 }, pipe_schema_on_mismatch: 'reject' })
    t.equal((await daemon.api('GET', `/v1/pipes/${randomUUID()}/schema/versions`)).status, 404)
  },

  'the schema is shown as TypeScript types': async (t, daemon) => {
    const id = await createPipe(daemon, {
      pipe_schema: { properties: { n: { type: 'integer' } }, required: ['n'] },
    })
    const types = async (pipeId: string) =>
      fetch(`${daemon.url}/v1/pipes/${pipeId}/schema/types.ts`, {
        headers: { authorization: `Bearer ${daemon.apiKey}` },
      })
    const response = await types(id)
    t.equal(response.headers.get('content-type'), 'text/plain; charset=utf-8')
    t.match(await response.text(), /^export (interface|type) \w+Record\b.*\bn: number\b/ms)
    await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema: null })
    const without = await (await types(id)).text()
    t.match(without, /^export (interface|type) \w+Record\b/m)
    t.notMatch(without, /\bn: number/)
    t.equal((await types(randomUUID())).status, 404)
  },

  'of two concurrent changes with If-Match one is made': async (t, daemon) => {
    const id = await createPipe(daemon, {})
    const etag = (await daemon.api('GET', `/v1/pipes/${id}`)).headers.etag
    const change = (maxProperties: number) =>
      daemon.api(
        'PATCH',
        `/v1/pipes/${id}`,
        { pipe_schema: { maxProperties } },
        { headers: { 'if-match': String(etag) } },
      )
    const statuses = (await Promise.all([change(1), change(2)])).map(({ status }) => status)
    t.same(statuses.sort(), [200, 412])
  },

  'the schemas of a workspace are limited together': async (t, daemon) => {
    const big = { description: 'x'.repeat(60_000) }
    const ids: string[] = []
    let answer: Answer
    do {
      answer = await daemon.api('POST', '/v1/pipes', { pipe_name: `p${randomUUID()}`, pipe_schema: big })
      if (answer.status === 201) ids.push(String(answer.body.pipe_id))
    } while (answer.status === 201 && ids.length < 100)
    t.match(answer, { status: 409, body: { error: 'workspace_full', limit: 'schema_bytes_per_workspace' } })
    const id = await createPipe(daemon, { pipe_schema: null })
    t.equal((await daemon.api('PATCH', `/v1/pipes/${id}`, { pipe_schema: big })).status, 409)
    for (const one of ids) await daemon.api('DELETE', `/v1/pipes/${one}`)
  },
}
