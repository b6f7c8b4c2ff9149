/** Management bodies that would take long to check, and pages that ask under a name of their own (M12, L10, L12). */
import t from 'tap'
import { schemaBody } from '../../src/contract/operation.ts'
import { startDaemon } from '../support/daemon.ts'
import { sendRaw } from '../support/raw-http.ts'
import { databaseDestination } from './management-client.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const pipe = await daemon.createPipe({ pipe_name: 'hostile' })
const at = `/v1/pipes/${pipe}/destinations`
const endpoint = { url: 'http://127.0.0.1:9/' }
const many = <T>(count: number, one: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => one(index))
const keyed = (count: number, value: unknown) =>
  Object.fromEntries(many(count, (index) => [`k${index}`, value]))

const bodies: [string, string, unknown][] = [
  [
    '60,000 headers',
    at,
    {
      destination_type: 'destination_http_endpoint',
      destination_config: { ...endpoint, headers: keyed(60_000, 'x') },
    },
  ],
  [
    '9,000 headers',
    at,
    {
      destination_type: 'destination_http_endpoint',
      destination_config: { ...endpoint, headers: keyed(9_000, 1) },
    },
  ],
  [
    '9,000 columns',
    at,
    {
      ...databaseDestination,
      columns: many(9_000, () => ({})),
    },
  ],
  [
    '1,600 wrong columns',
    at,
    {
      ...databaseDestination,
      columns: many(1_600, () => ({ column_name: 7, wrong: 1 })),
    },
  ],
  ['900 unknown fields', '/v1/pipes', keyed(900, 1)],
  ['900 empty lists', '/v1/pipes', { pipe_name: many(900, () => []) }],
  ['15,000 unknown fields', '/v1/pipes', keyed(15_000, 1)],
  ['340,000 empty lists', '/v1/pipes', { pipe_name: many(340_000, () => []) }],
  ['500,000 digits', '/v1/pipes', { pipe_name: many(500_000, () => 1) }],
]

for (const [name, path, body] of bodies) {
  t.test(`${name}: rejected with at most 100 sentences, and health is answered at once`, async (t) => {
    const text = JSON.stringify(body)
    const attacks = Promise.all(
      many(10, () => daemon.api<{ error: string; errors: object }>('POST', path, text)),
    )
    const health = await daemon.api('GET', '/v1/health', undefined, { key: null })
    t.equal(health.status, 200)
    for (const { status, body: answer } of await attacks) {
      if (text.length > schemaBody.bytes && path === '/v1/pipes') {
        t.same([status, answer.error], [413, 'payload_too_large'])
        continue
      }
      t.same([status, answer.error], [400, 'validation_error'])
      const count = Object.keys(answer.errors).length
      t.ok(count > 0 && count <= 100, `${count} sentences`)
    }
  })
}

t.test('the largest list of columns that is valid is taken', async (t) => {
  const columns = many(1_600, (index) => ({
    column_name: `c${index}`,
    column_type: 'string',
    source_field: `f${index}`,
  }))
  const answer = await daemon.api('POST', at, { ...databaseDestination, columns })
  t.equal(answer.status, 201, answer.text.slice(0, 300))
})

t.test('/metrics answers by address and localhost, not by a name that a page brings along', async (t) => {
  const { port } = new URL(daemon.metricsUrl)
  const ask = async (host: string) =>
    (await sendRaw(daemon.metricsUrl, `GET /metrics HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`))
      .status
  for (const host of [`127.0.0.1:${port}`, '127.0.0.1', `localhost:${port}`, `[::1]:${port}`, 'LOCALHOST'])
    t.equal(await ask(host), 200, host)
  for (const host of [
    `rebound.example:${port}`,
    'rebound.example',
    `127.0.0.1.rebound.example:${port}`,
    'localhost.example',
  ])
    t.equal(await ask(host), 403, host)
})
