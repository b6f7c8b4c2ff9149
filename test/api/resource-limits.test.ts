/** The limits that hold for every pipe: each named in its error, each counted before anything is allocated for it. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { createWorkspace, startDaemon } from '../support/daemon.ts'

const MiB = 1024 * 1024
const daemon = await startDaemon()
t.teardown(() => daemon.close())
const pipe = await daemon.createPipe({ pipe_name: 'limited', pipe_add_ingest_ts: false })
const stamped = await daemon.createPipe({ pipe_name: 'stamped' })

const post = (body: string | Buffer, headers: Record<string, string> = {}, to = pipe) =>
  daemon.api('POST', `/v1/ingest/${to}`, body, { headers })
const ndjson = { 'content-type': 'application/x-ndjson' }
const records = (count: number, record = '{}') => `[${Array(count).fill(record).join(',')}]`
const lines = (count: number, record = '{}') => `${Array(count).fill(record).join('\n')}\n`

async function residentBytes(of = daemon): Promise<number> {
  const text = await (await fetch(of.metricsUrl)).text()
  return Number(/^process_resident_memory_bytes (\S+)/m.exec(text)?.[1])
}

t.test('50,000 records in one request are taken, one more is 413 naming the limit; NDJSON too', async (t) => {
  for (const [body, headers] of [
    [records, {}],
    [lines, ndjson],
  ] as const) {
    const taken = await post(body(50_000), headers)
    t.same([taken.status, taken.body.records_count], [202, 50_000])
    for (const text of [body(50_001), `${body(50_001)} {`]) {
      const rejected = await post(text, headers)
      t.same([rejected.status, rejected.body.error], [413, 'payload_too_large'])
      t.match(rejected.body, {
        limit: 'ingest.max_records_per_request',
        limit_value: 50_000,
        message: /50000 records/,
      })
    }
  }
  t.equal(
    (await post(`${'\n'.repeat(200_000)}${lines(10)}`, ndjson)).status,
    202,
    'blank lines are no records',
  )
})

t.test(
  '10,000 keys in one record are taken, one more is 400 naming the record; nested keys count',
  async (t) => {
    const keys = (count: number) =>
      `{${Array.from({ length: count }, (_, index) => `"k${index}":0`).join(',')}}`
    t.equal((await post(keys(10_000))).status, 202)
    t.equal((await post(`[${keys(10_000)},${keys(9_999)}]`)).status, 202, 'each record has its own')
    for (const [body, headers, index] of [
      [keys(10_001), {}, 0],
      [`[{},${keys(10_001)}]`, {}, 1],
      [`{}\n\n${keys(10_001)}\n`, ndjson, 1],
      [`{"a":[${keys(5_000)},${keys(5_000)}]}`, {}, 0],
    ] as const) {
      const rejected = await post(body, headers)
      t.same([rejected.status, rejected.body.error], [400, 'invalid_payload'])
      t.match(rejected.body, {
        limit: 'ingest.max_keys_per_record',
        limit_value: 10_000,
        record_index: index,
        message: /10000/,
      })
    }
    t.equal((await post(`{"text":"${':'.repeat(20_000)}"}`)).status, 202, 'a colon in a string is no key')
  },
)

t.test('both are settings', async (t) => {
  const other = await startDaemon({
    env: { PIPECTL_INGEST_MAX_RECORDS_PER_REQUEST: '3', PIPECTL_INGEST_MAX_KEYS_PER_RECORD: '2' },
  })
  t.teardown(() => other.close())
  const id = await other.createPipe({ pipe_name: 'small' })
  const send = async (body: string) => (await other.api('POST', `/v1/ingest/${id}`, body)).status
  t.same([await send(records(3)), await send(records(4))], [202, 413])
  t.same([await send('{"a":1,"b":2}'), await send('{"a":1,"b":2,"c":3}')], [202, 400])
})

t.test(
  'what a message takes in the buffer is limited before it is made: 413, and the memory stays flat',
  async (t) => {
    const other = await startDaemon({ env: { PIPECTL_INGEST_MAX_RECORDS_PER_REQUEST: '2000000' } })
    t.teardown(() => other.close())
    const wide = await other.createPipe({
      pipe_name: 'wide',
      pipe_ingest_ts_field: '\u20ac'.repeat(100),
      pipe_add_ingest_ip: true,
      pipe_ingest_ip_field: '\u20ad'.repeat(100),
    })
    const before = await residentBytes(other)
    for (const [count, status] of [
      [90_000, 202],
      [110_000, 413],
      [1_600_000, 413],
    ] as const) {
      const answer = await other.api('POST', `/v1/ingest/${wide}`, records(count))
      t.equal(answer.status, status, `${count} records, 660 bytes added to each`)
      if (status === 202) continue
      t.match(answer.body, {
        error: 'payload_too_large',
        limit: 'stored_bytes_per_message',
        limit_value: 64 * MiB,
        message: /67108864/,
      })
      t.ok(Number(answer.body.current) > 64 * MiB)
    }
    // Without the limit the last one alone takes a gigabyte.
    t.ok((await residentBytes(other)) - before < 700 * MiB)
  },
)

t.test(
  'five kilobytes that hold 1.7 million records: 413, the memory stays flat and the neighbour is served (C3)',
  async (t) => {
    const neighbour = await createWorkspace(daemon.dataDir, 'neighbour')
    const made = await daemon.api<{ pipe_id: string }>(
      'POST',
      '/v1/pipes',
      { pipe_name: 'honest' },
      { key: neighbour.api_key },
    )
    const bomb = gzipSync(records(1_660_000))
    t.ok(bomb.length < 6_000)
    const before = await residentBytes()
    const attacks = Array.from({ length: 20 }, () => post(bomb, { 'content-encoding': 'gzip' }, stamped))
    const honest = await Promise.all(
      Array.from({ length: 20 }, () =>
        daemon.api('POST', `/v1/ingest/${made.body.pipe_id}`, { a: 1 }, { key: neighbour.api_key }),
      ),
    )
    t.ok(honest.every(({ status }) => status === 202))
    for (const { status } of await Promise.all(attacks)) t.equal(status, 413)
    // The same, sent without compression.
    for (const text of [records(1_660_000), lines(1_660_000)]) {
      t.equal((await post(text, text.startsWith('[') ? {} : ndjson, stamped)).status, 413)
    }
    t.ok((await residentBytes()) - before < 150 * MiB)
  },
)
