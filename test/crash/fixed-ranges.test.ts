/**
 * A daemon that is killed while full batches follow each other sends no message in two different batches: what is
 * repeated after a start has the identity and the bytes that it had before.
 */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { type SinkDelivery, startHttpSink } from '../support/http-sink.ts'
import { drained } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { restarts } from './ledger-daemon.ts'

type Sent = Pick<SinkDelivery, 'headers' | 'text'>

const numbersOf = ({ text }: Sent) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => Number(JSON.parse(line).n))

/** Violations of the rule: batches with one identity and other bytes, and records in batches of two identities. */
function wrongIn(deliveries: readonly Sent[]): string[] {
  const texts = new Map<string, string>()
  const batches = new Map<number, string>()
  const wrong: string[] = []
  for (const delivery of deliveries) {
    const id = String(delivery.headers['webhook-id'])
    if ((texts.get(id) ?? delivery.text) !== delivery.text) wrong.push(`${id} has other bytes`)
    texts.set(id, delivery.text)
    for (const n of numbersOf(delivery)) {
      if ((batches.get(n) ?? id) !== id) wrong.push(`${n} is in two batches`)
      batches.set(n, id)
    }
  }
  return wrong
}

t.test(`full batches through kill -9 (${restarts} times): a repeat is the same batch`, async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'ranges' })
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/`, body_format: 'ndjson' },
    flush: { max_records: 10, max_bytes: 1_000_000, max_seconds: 0 },
  })
  sink.respondWith(() => ({ delayMs: 5 }))
  let sent = 0
  for (let round = 0; round < restarts; round++) {
    const before = sink.deliveries.length
    const send = (message: number) => {
      const count = 1 + ((message * 7 + round) % 4)
      return daemon.ingest(
        pipeId,
        Array.from({ length: count }, () => ({ n: sent++ })),
      )
    }
    await Promise.all(Array.from({ length: 200 }, (_, message) => send(message)))
    await until('batches arrive', () => sink.deliveries.length >= before + 3 + (round % 5))
    await daemon.kill()
    await daemon.start()
  }
  await drained(daemon, pipeId, id)
  t.same(wrongIn(sink.deliveries), [])
  const arrived = new Set(sink.deliveries.flatMap(numbersOf))
  t.equal(arrived.size, sent, 'every record has arrived')
  const repeats =
    sink.deliveries.length - new Set(sink.deliveries.map((one) => one.headers['webhook-id'])).size
  t.comment(`${sink.deliveries.length} batches, ${repeats} of them repeats`)

  t.test('negative control: a batch that was cut otherwise is named', async (t) => {
    const [first] = sink.deliveries.filter((one) => numbersOf(one).length > 3)
    const half = { ...first!, text: first!.text.split('\n').slice(0, 3).join('\n') }
    t.match(wrongIn([first!, half]), [/has other bytes/])
    const renamed = { ...half, headers: { ...half.headers, 'webhook-id': 'another' } }
    t.match(wrongIn([first!, renamed]), [/is in two batches/])
  })
})
