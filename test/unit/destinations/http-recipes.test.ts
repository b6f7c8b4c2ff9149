/** Elasticsearch, ClickHouse, Loki and Slack, as far as their public rules go: what arrives, and what a refusal costs. */
import t, { type Test } from 'tap'
import { type AttemptProgress, noProgress, type RejectedRecord } from '../../../src/destinations/driver.ts'
import { openDriver } from '../../../src/destinations/drivers.ts'
import { anyKey, failureOf, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import {
  startClickHouseSink,
  startIndexSink,
  startLokiSink,
  startSlackSink,
} from '../../support/vendor-sinks.ts'

const numbers = (from: number, count: number) => Array.from({ length: count }, (_, at) => ({ n: from + at }))

function open(t: Test, config: Record<string, unknown>) {
  const driver = openDriver(makeSpec('destination_http_endpoint', config), openSettings, anyKey)
  t.teardown(() => driver.close())
  return driver
}

function keeper(park?: (rejected: readonly RejectedRecord[]) => Promise<void>) {
  const kept: RejectedRecord[] = []
  const progress: AttemptProgress = {
    ...noProgress,
    beforeRequest: async () => {},
    stored: () => {},
    park: async (rejected) => {
      await park?.(rejected)
      kept.push(...rejected)
    },
  }
  return { kept, progress }
}

t.test('es_bulk', async (t) => {
  const { sink, documents, busy } = await startIndexSink('ApiKey word')
  t.teardown(() => sink.stop())
  const config = { url: `${sink.url}/events/_bulk`, body_format: 'es_bulk', auth_header: 'ApiKey word' }
  const values = () => [...documents.values()].map((text) => JSON.parse(text).n)
  t.beforeEach(() => {
    documents.clear()
    busy.clear()
  })

  t.test('every record is a document with its own text and id; a repetition changes nothing', async (t) => {
    const batch = makeBatch([['{"n":1.10,"big":12345678901234567890}'], numbers(2, 3)])
    const driver = open(t, config)
    await driver.deliver(batch, never)
    await driver.deliver(batch, never)
    t.same(values(), [1.1, 2, 3, 4])
    t.equal([...documents.values()][0], '{"n":1.10,"big":12345678901234567890}')
    await open(t, { ...config, compression: 'gzip' }).deliver(batch, never)
    t.equal(documents.size, 4)
  })

  t.test('a rejected record in an answer of 200 is parked, the others are stored', async (t) => {
    const batch = makeBatch([[{ n: 0 }, { n: 'x' }], [{ n: 2 }], [{ n: 'y' }]], 7)
    const { kept, progress } = keeper()
    await open(t, config).deliver(batch, never, progress)
    t.same(values(), [0, 2])
    t.match(kept, [
      { seq: 7, recordIndex: 1, code: 'document_parsing_exception', message: /failed to parse field \[n\]/ },
      { seq: 9, recordIndex: 0 },
    ])
  })

  t.test('without parking it fails for good and names the record', async (t) => {
    const batch = makeBatch([[{ n: 0 }], [{ n: 1 }, { n: 'x' }]], 7)
    t.match(await failureOf(open(t, config).deliver(batch, never)), {
      ...{ class: 'permanent', fault: 'records', failedSeq: 8, code: 'document_parsing_exception' },
      rejected: { seq: 8, recordIndex: 1 },
    })
  })

  t.test('records that are taken later: the batch is sent again, and nothing is there twice', async (t) => {
    const batch = makeBatch([numbers(0, 3), [{ n: 'x' }]])
    const driver = open(t, config)
    const { kept, progress } = keeper()
    busy.add(1)
    t.match(await failureOf(driver.deliver(batch, never, progress)), {
      ...{
        class: 'transient',
        code: 'es_rejected_execution_exception',
        message: /\(429\): the queue is full/,
      },
    })
    t.same(values(), [0, 2])
    t.equal(kept.length, 1)
    busy.clear()
    await driver.deliver(batch, never, progress)
    t.same(values().sort(), [0, 1, 2])
  })

  t.test('what cannot be parked is not delivered', async (t) => {
    const { progress } = keeper(() => Promise.reject(new Error('full')))
    const failure = await failureOf(open(t, config).deliver(makeBatch([[{ n: 'x' }]]), never, progress))
    t.match(failure, { class: 'transient', code: 'not_set_aside' })
  })

  t.test('wrong credentials, another path: about the destination', async (t) => {
    const batch = makeBatch([numbers(0, 2)], 7)
    const stranger = open(t, { ...config, auth_header: 'ApiKey other' })
    t.match(await failureOf(stranger.deliver(batch, never)), { class: 'permanent', code: 'http_401' })
  })

  t.test('a thousand long refusals are read to their end', async (t) => {
    const many = makeBatch([Array.from({ length: 1000 }, (_, at) => ({ n: at % 2 === 0 ? at : 'x' }))])
    const { kept, progress } = keeper()
    await open(t, config).deliver(many, never, progress)
    t.equal(documents.size, 500)
    t.equal(kept.length, 500)
  })

  t.test('a message of more records than an answer has room for goes in several requests', async (t) => {
    const records = [...numbers(0, 12_000), { n: 'x' }]
    const batch = makeBatch([records])
    const before = sink.deliveries.length
    const { kept, progress } = keeper()
    let turns = 0
    const beforeRequest = async () => void turns++
    await open(t, config).deliver(batch, never, { ...progress, beforeRequest })
    t.equal(documents.size, 12_000)
    t.match(kept, [{ recordIndex: 12_000 }])
    t.equal(turns, 2, 'each after the first waits for its turn in the rate')
    const ids = sink.deliveries.slice(before).map(({ headers }) => headers['webhook-id'])
    t.equal(new Set(ids).size, 3)
    await open(t, config).deliver(batch, never, progress)
    t.same(
      sink.deliveries.slice(before + 3).map(({ headers }) => headers['webhook-id']),
      ids,
      'sent again, each has its own again',
    )
    t.equal(documents.size, 12_000)
  })

  t.test('an answer of 200 that does not say what became of each record does not count', async (t) => {
    const answers = ['', 'ok', '[]', '{}', '{"items":[]}', '{"items":[{"create":{"status":201}}]}', 'null']
      .concat([
        '{"items":[{"create":{"status":201}},{"create":{}}]}',
        '{"items":[{"index":{"status":201}},null]}',
      ])
      .concat([`{"items":${'['.repeat(100_000)}`])
    for (const body of answers) {
      sink.respondWith(() => ({ status: 200, body }))
      const failure = await failureOf(open(t, config).deliver(makeBatch([numbers(0, 2)]), never))
      t.match(failure, { class: 'transient', code: 'protocol_error' }, body.slice(0, 50))
    }
    sink.respondWith(() => ({ status: 200, body: `{"errors":false,"items":[${' '.repeat(9 * 1024 * 1024)}` }))
    const endless = await failureOf(open(t, config).deliver(makeBatch([numbers(0, 2)]), never))
    t.match(endless, { class: 'transient', code: 'response_too_large' })
    sink.respondWith(() => ({ status: 200, body: `{"items":[${' '.repeat(1000)}`, fault: 'half' }))
    t.equal((await failureOf(open(t, config).deliver(makeBatch([numbers(0, 2)]), never))).class, 'transient')
  })
})

t.test('ClickHouse by ndjson: rows; what it refuses is found', async (t) => {
  const { sink, rows } = await startClickHouseSink('loader', 'word')
  t.teardown(() => sink.stop())
  const query = encodeURIComponent('INSERT INTO events FORMAT JSONEachRow')
  const config = {
    url: `${sink.url}/?query=${query}`,
    body_format: 'ndjson',
    headers: { 'X-ClickHouse-User': 'loader' },
    secret_headers: { 'X-ClickHouse-Key': 'word' },
  }
  await open(t, config).deliver(makeBatch([[{ id: 1 }], ['{"id":2,"price":1.10}']]), never)
  t.same(rows, [{ id: 1 }, { id: 2, price: 1.1 }])
  t.match(await failureOf(open(t, config).deliver(makeBatch([[{ id: 1, other: 2 }]], 7), never)), {
    ...{ class: 'permanent', code: 'http_400', fault: 'records', failedSeq: 7, message: /Unknown field/ },
  })
  const stranger = open(t, { ...config, secret_headers: { 'X-ClickHouse-Key': 'other' } })
  t.match(await failureOf(stranger.deliver(makeBatch([[{ id: 1 }]]), never)), {
    class: 'permanent',
    code: 'http_403',
  })
})

t.test('loki: lines with the labels of the stream; a repetition is the same entries', async (t) => {
  const { sink, streams } = await startLokiSink('shop')
  t.teardown(() => sink.stop())
  const config = {
    url: `${sink.url}/loki/api/v1/push`,
    body_format: 'loki',
    headers: { 'X-Scope-OrgID': 'shop' },
  }
  const batch = makeBatch([['{"n":1.10}', '{"n":1.10}', '{"text":"a \\"b\\""}'], [{ n: 2 }]])
  await open(t, config).deliver(batch, never)
  await open(t, config).deliver(batch, never)
  t.same([...streams.keys()], ['{"pipe":"orders"}'])
  t.same(
    [...(streams.get('{"pipe":"orders"}')?.values() ?? [])].sort(),
    ['{"n":1.10}', '{"n":1.10}', '{"n":2}', '{"text":"a \\"b\\""}'],
    'equal lines of one request are each there',
  )
  await open(t, { ...config, labels: { app: 'shop', level: 'info' } }).deliver(batch, never)
  t.ok(streams.has('{"app":"shop","level":"info"}'))
  t.match(await failureOf(open(t, { ...config, headers: {} }).deliver(batch, never)), { code: 'http_401' })
})

t.test('slack: one message for each record, with what it says escaped', async (t) => {
  const { sink, messages, limitNext, url } = await startSlackSink()
  t.teardown(() => sink.stop())
  const config = { url, body_format: 'slack' }
  const record = '{"id":12345678901234567890,"who":"<!channel> & co","none":null,"list":[1]}'
  await open(t, config).deliver(makeBatch([[record]]), never)
  const templates = ['{who} ordered {id}', '{missing}', '{list} {none} <https://shop.example.com|shop>']
  for (const text_template of templates)
    await open(t, { ...config, text_template }).deliver(makeBatch([[record]]), never)
  t.same(messages, [
    '{"id":12345678901234567890,"who":"&lt;!channel&gt; &amp; co","none":null,"list":[1]}',
    '&lt;!channel&gt; &amp; co ordered 12345678901234567890',
    '(empty)',
    '[1] null <https://shop.example.com|shop>',
  ])

  messages.length = 0
  const driver = open(t, { ...config, text_template: '{n}' })
  const batch = makeBatch([numbers(0, 3)])
  await driver.deliver({ ...batch, recordOffset: 2 }, never)
  limitNext(1)
  t.match(await failureOf(driver.deliver(batch, never)), {
    ...{ class: 'transient', code: 'http_429', retryAfterMs: 1000, storedRecords: 0 },
  })
  await driver.deliver(batch, never)
  t.same(messages, ['2', '0', '1', '2'])
})
