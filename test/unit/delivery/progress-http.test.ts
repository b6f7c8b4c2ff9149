/** docs/dev/contract.md#progress against real endpoints that are slow or reject records, through the delivery thread. */
import t from 'tap'
import { openDeliveryStack } from '../../support/delivery-stack.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)

t.test('json_object: an endpoint that takes 10 requests per second gets 50 records, each once', async (t) => {
  const sink = await startHttpSink()
  const stack = await openDeliveryStack(t.testdir())
  // A new window begins with the first request after a second.
  let window = { from: 0, taken: 0 }
  const stored: number[] = []
  const refused: string[] = []
  sink.respondWith(({ text, headers }) => {
    const now = performance.now()
    if (now - window.from >= 1_000) window = { from: now, taken: 0 }
    if (window.taken === 10) {
      refused.push(String(headers['webhook-id']))
      return { status: 429, headers: { 'retry-after': '1' } }
    }
    window.taken += 1
    stored.push(JSON.parse(text).n)
    return {}
  })
  for (let first = 0; first < 50; first += 5) await stack.append(first, 5)
  const id = await stack.addLane({ destination_config: { url: sink.url, body_format: 'json_object' } })
  await until(
    'all are delivered',
    async () => (await stack.delivery.lanes([id]))[id]?.pending_messages === 0,
    {
      timeoutMs: 60_000,
    },
  )
  t.strictSame(stored, upTo(50), 'in order, none twice')
  t.ok(refused.length >= 1, 'negative control: the endpoint did refuse')
  const ids = sink.deliveries.map(({ headers }) => String(headers['webhook-id']))
  for (const id of refused) t.ok(ids.filter((one) => one === id).length >= 2, 'sent again under the same id')
  await stack.close()
  await sink.stop()
})

t.test('json_array: an endpoint that needs 30 ms per record gets 100 with a timeout of 1 s', async (t) => {
  const sink = await startHttpSink()
  const stack = await openDeliveryStack(t.testdir())
  const sizes: number[] = []
  sink.respondWith(async ({ text }) => {
    const { length } = JSON.parse(text)
    sizes.push(length)
    await new Promise((resolve) => setTimeout(resolve, length * 30))
    return {}
  })
  for (let first = 0; first < 100; first += 1) await stack.append(first)
  const id = await stack.addLane({ destination_config: { url: sink.url, timeout_ms: 1_000 } })
  await until(
    'all are delivered',
    async () => (await stack.delivery.lanes([id]))[id]?.pending_messages === 0,
    {
      timeoutMs: 90_000,
    },
  )
  t.strictSame(sizes.slice(0, 7), [100, 100, 100, 50, 50, 50, 25])
  t.ok(
    sizes.slice(6).every((size) => size <= 25),
    'and it stays at the size that worked',
  )
  await stack.close()
  await sink.stop()
})
