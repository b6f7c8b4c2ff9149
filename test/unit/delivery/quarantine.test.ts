/** A lane whose driver ends its worker again and again is tried apart, and no other lane notices any more. */
import t from 'tap'
import { resolveConfig } from '../../../src/contract/destination.ts'
import { openDeliveryStack } from '../../support/delivery-stack.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

process.execArgv.push(`--import=${new URL('../../support/rogue/fatal-answers.mjs', import.meta.url)}`)

const fatal = (kind: string) => ({ headers: { 'x-fatal': kind } })

t.test('two deaths, then apart; across a restart; until it has delivered', async (t) => {
  const root = t.testdir()
  const stack = await openDeliveryStack(root)
  const [rogue, good] = await Promise.all([startHttpSink(), startHttpSink()])
  rogue.respondWith(() => fatal('throw'))
  const goodId = await stack.addLane({ destination_config: { url: good.url } })
  const rogueId = await stack.addLane({ destination_config: { url: rogue.url } })
  await stack.append(0)
  const lane = await until('it was tried apart', async () => {
    const lane = (await stack.delivery.lanes([rogueId]))[rogueId]
    return lane?.last_error?.code === 'driver_crashed' && lane.stale === undefined ? lane : null
  })
  t.match(lane, { lane_state: 'retrying', attempts: 1, last_error: { class: 'transient' } })
  t.ok(Date.parse(lane.next_attempt_ts ?? '') - Date.now() > 200_000, 'and is again in 300 s')
  const { workerRestarts } = await stack.delivery.metrics()
  t.equal(workerRestarts, 2)
  t.equal(rogue.deliveries.length, 3)
  await stack.append(1)
  await stack.delivery.retryNow(rogueId)
  await until('it was tried again', async () => {
    return (await stack.delivery.lanes([rogueId]))[rogueId]?.attempts === 2
  })
  await until('the good lane has everything', async () => {
    return (await stack.delivery.lanes([goodId]))[goodId]?.delivered_records === 2
  })
  t.equal((await stack.delivery.metrics()).workerRestarts, workerRestarts, 'nobody else noticed')

  const spec = {
    ...{ destinationId: rogueId, pipeId: stack.pipeId, pipeName: 'p', columns: [], timestampField: 'ts' },
    ...resolveConfig('destination_http_endpoint', { url: rogue.url }),
  }
  t.match(await stack.delivery.test(spec), [{ ok: false }], 'a test of it ends nothing but the test')
  t.equal((await stack.delivery.metrics()).workerRestarts, workerRestarts)
  await stack.close()

  const again = await openDeliveryStack(root)
  await again.delivery.retryNow(rogueId)
  await until('it was tried again', async () => {
    return (await again.delivery.lanes([rogueId]))[rogueId]?.attempts === 3
  })
  t.equal((await again.delivery.metrics()).workerRestarts, 0, 'apart from the start')
  rogue.respondWith(() => ({}))
  await again.delivery.retryNow(rogueId)
  const delivered = await until('it has delivered', async () => {
    const lane = (await again.delivery.lanes([rogueId]))[rogueId]
    return lane?.lane_state === 'idle' ? lane : null
  })
  t.match(delivered, { delivered_records: 2, last_error: null })
  t.strictSame(again.fatal, [])
  await again.close()
  for (const sink of [rogue, good]) await sink.stop()
})

t.test('a driver that hangs apart is ended, and its lane stays apart', async (t) => {
  const stack = await openDeliveryStack(t.testdir())
  const rogue = await startHttpSink()
  rogue.respondWith((_, index) => fatal(index < 2 ? 'throw' : 'spin'))
  const id = await stack.addLane({ destination_config: { url: rogue.url } })
  await stack.append(0)
  await until('it was tried apart', async () => {
    return (await stack.delivery.lanes([id]))[id]?.last_error?.code === 'driver_crashed'
  })
  t.equal((await stack.delivery.metrics()).workerRestarts, 2)
  await stack.close()
  t.strictSame(stack.fatal, [])
  await rogue.stop()
})
