/** The delivery thread ends in order, and by kill -9, while it delivers: nothing is lost, and nothing comes out of order. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { childFlags } from '../support/child-flags.ts'
import { openDeliveryStack } from '../support/delivery-stack.ts'
import { type HttpSink, startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

const numbers = (sink: HttpSink) => sink.records().map(({ n }) => Number(n))
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)

t.test('an orderly end under load loses nothing and delivers nothing twice', async (t) => {
  const root = t.testdir()
  const sink = await startHttpSink()
  sink.respondWith(() => ({ delayMs: 20 }))
  let next = 0
  for (let round = 0; round < 3; round += 1) {
    const stack = await openDeliveryStack(root)
    if (round === 0) await stack.addLane({ destination_config: { url: sink.url } })
    const already = sink.deliveries.length
    const appends: Promise<number>[] = []
    for (let count = 0; count < 100; count += 1) {
      appends.push(stack.append(next, 2))
      next += 2
    }
    await until('an attempt is under way', () => sink.deliveries.length > already)
    await Promise.all(appends)
    await stack.close()
  }
  const stack = await openDeliveryStack(root)
  await until('everything is delivered', () => sink.records().length >= next)
  await stack.close()
  t.strictSame(numbers(sink), upTo(next))
  await sink.stop()
})

t.test('kill -9 under load: what was acknowledged is delivered, in order', async (t) => {
  const root = t.testdir()
  const sink = await startHttpSink()
  const setUp = await openDeliveryStack(root)
  const id = await setUp.addLane({ destination_config: { url: sink.url } })
  await setUp.close()
  let acknowledged = -1
  for (let round = 0; round < 3; round += 1) {
    const child = spawn(
      process.execPath,
      [
        ...childFlags,
        new URL('../support/delivery-child.ts', import.meta.url).pathname,
        root,
        String(round * 1e6),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    t.teardown(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const before = sink.deliveries.length
    await until('messages are acknowledged and delivered', () => {
      return said.split('\n').length > 20 + round * 7 && sink.deliveries.length > before + round
    })
    child.kill('SIGKILL')
    await exited
    acknowledged = Number(said.split('\n').at(-2))
  }
  const stack = await openDeliveryStack(root)
  await until(
    'everything is delivered',
    async () => (await stack.delivery.lanes([id]))[id]?.lane_state === 'idle',
  )
  await stack.close()

  const arrived = new Set(numbers(sink))
  const missing = Array.from({ length: 3 }, (_, round) => round * 1e6).flatMap((first) =>
    gapsFrom(first, arrived, first + 1e6),
  )
  t.strictSame(missing, [])
  t.ok(arrived.has(acknowledged), 'the last acknowledged one is there')
  t.strictSame(outOfOrder(sink), [], 'first deliveries come in order')

  arrived.delete(acknowledged - 5)
  t.strictSame(gapsFrom(2e6, arrived, 3e6), [acknowledged - 5], 'negative control: a missing one is found')
  await sink.stop()
})

/** Numbers that are missing below the largest that arrived in [first, end): appends were acknowledged in order. */
function gapsFrom(first: number, arrived: ReadonlySet<number>, end: number): number[] {
  let largest = first
  for (const n of arrived) if (n < end) largest = Math.max(largest, n)
  const missing: number[] = []
  for (let n = first; n <= largest; n += 1) if (!arrived.has(n)) missing.push(n)
  return missing
}

/** First deliveries that came after the first delivery of a larger number. */
function outOfOrder(sink: HttpSink): number[] {
  const seen = new Set<number>()
  const wrong: number[] = []
  let largest = -1
  for (const n of numbers(sink)) {
    if (seen.has(n)) continue
    seen.add(n)
    if (n < largest) wrong.push(n)
    largest = Math.max(largest, n)
  }
  return wrong
}
