/** A delivery worker dies: main starts another, and every lane goes on from its row. */
import t from 'tap'
import { openDeliveryStack } from '../../support/delivery-stack.ts'
import { type HttpSink, startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

process.execArgv.push(`--import=${new URL('../../support/rogue/fatal-answers.mjs', import.meta.url)}`)

const numbers = (sink: HttpSink) => new Set(sink.records().map(({ n }) => Number(n)))
const upTo = (count: number) => new Set(Array.from({ length: count }, (_, index) => index))
const fatal = (kind: string) => ({ headers: { 'x-fatal': kind } })

t.test('a death: nothing is lost, other lanes go on, what changed meanwhile is honoured', async (t) => {
  const stack = await openDeliveryStack(t.testdir())
  const [rogue, good, late] = await Promise.all([startHttpSink(), startHttpSink(), startHttpSink()])
  let answer = () => {}
  const answered = new Promise<void>((resolve) => {
    answer = resolve
  })
  rogue.respondWith(async (_, index) => {
    if (index > 0) return {}
    await answered
    return fatal('throw')
  })
  const goodId = await stack.addLane({ destination_config: { url: good.url } })
  const pullId = await stack.addLane({ destination_type: 'destination_pull', destination_config: {} })
  const rogueId = await stack.addLane({ destination_config: { url: rogue.url } })
  const seq = await stack.append(0)
  await until('the rogue was asked', () => rogue.deliveries.length > 0)
  const waiting = stack.delivery.pull(pullId, { waitMs: 30_000, afterSeq: seq })
  await until('the pull has moved its lane', async () => {
    const lane = (await stack.delivery.lanes([pullId]))[pullId]
    return lane?.cursor_seq === seq
  })
  answer()
  t.strictSame(await waiting, { kind: 'empty' }, 'who waited in the worker that died is answered')
  const lateId = await stack.addLane({ destination_config: { url: late.url } })
  await stack.metadata.destinations.delete({
    workspaceId: stack.workspaceId,
    pipeId: stack.pipeId,
    destinationId: goodId,
  })
  await stack.delivery.refresh(stack.pipeId)
  for (let n = 1; n < 20; n += 1) await stack.append(n)
  await until('the others have everything', () => numbers(late).size === 20 && numbers(rogue).size === 20)
  t.strictSame([numbers(late), numbers(rogue)], [upTo(20), upTo(20)])
  t.notOk(numbers(good).has(19), 'a lane that was deleted meanwhile does not run again')
  const pulled = await stack.delivery.pull(pullId, { waitMs: 30_000, afterSeq: null })
  t.equal(pulled.kind, 'message', 'the pull lane is there again')
  const lanes = await stack.delivery.lanes([goodId, lateId, rogueId])
  t.strictSame(Object.keys(lanes).sort(), [lateId, rogueId].sort())
  t.strictSame(stack.fatal, [])
  await stack.close()
  for (const sink of [rogue, good, late]) await sink.stop()
})

for (const state of ['is about to be started', 'is starting']) {
  t.test(`the end while a worker ${state} is orderly`, async (t) => {
    const stack = await openDeliveryStack(t.testdir())
    const rogue = await startHttpSink()
    rogue.respondWith(() => fatal('throw'))
    const pullId = await stack.addLane({ destination_type: 'destination_pull', destination_config: {} })
    const seq = await stack.append(0)
    const waiting = stack.delivery.pull(pullId, { waitMs: 30_000, afterSeq: seq })
    await stack.addLane({ destination_config: { url: rogue.url } })
    t.strictSame(await waiting, { kind: 'empty' }, 'the worker has died')
    if (state === 'is starting') await new Promise((resolve) => setImmediate(resolve))
    await stack.close()
    t.strictSame(stack.fatal, [])
    await rogue.stop()
  })
}

t.test('a hang: lanes are shown as stored until the worker is replaced, then all go on', async (t) => {
  const stack = await openDeliveryStack(t.testdir())
  const [rogue, good] = await Promise.all([startHttpSink(), startHttpSink()])
  rogue.respondWith((_, index) => (index === 0 ? fatal('spin') : {}))
  const goodId = await stack.addLane({ destination_config: { url: good.url } })
  await stack.append(0)
  await until('the good lane has delivered', async () => {
    return (await stack.delivery.lanes([goodId]))[goodId]?.delivered_records === 1
  })
  const rogueId = await stack.addLane({ destination_config: { url: rogue.url } })
  await until('the rogue has answered', () => rogue.deliveries.length > 0)
  await stack.append(1)
  const stale = await until('lanes are shown although the worker hangs', async () => {
    const lanes = await stack.delivery.lanes([goodId, rogueId])
    return lanes[goodId]?.stale === true ? lanes : null
  })
  t.match(stale, { [goodId]: { pending_messages: 1 }, [rogueId]: { pending_messages: 2, stale: true } })
  t.match(await stack.delivery.backlogs([stack.pipeId]), { [stack.pipeId]: { pending_messages: 2 } })
  t.equal(await stack.delivery.blockingMessage(rogueId), null)
  t.type((await stack.delivery.metrics()).lanes, Array)
  await until('both have everything', () => numbers(good).size === 2 && numbers(rogue).size === 2)
  const fresh = await until('lanes are fresh again', async () => {
    const lanes = await stack.delivery.lanes([goodId, rogueId])
    return lanes[goodId]?.stale === undefined && lanes[rogueId]?.lane_state === 'idle' ? lanes : null
  })
  t.equal(fresh[goodId]?.delivered_records, 2)
  t.equal((await stack.delivery.metrics()).workerRestarts, 1)
  t.strictSame(stack.fatal, [])
  await stack.close()
  for (const sink of [rogue, good]) await sink.stop()
})

t.test('the end while a worker hangs comes within its time, and says that it was not orderly', async (t) => {
  const stack = await openDeliveryStack(t.testdir())
  const rogue = await startHttpSink()
  rogue.respondWith(() => fatal('spin'))
  await stack.addLane({ destination_config: { url: rogue.url } })
  await stack.append(0)
  await until('the rogue has answered', () => rogue.deliveries.length > 0)
  await t.rejects(stack.delivery.close(), /has ended/)
  await stack.metadata.close()
  await stack.buffer.close()
  t.strictSame(stack.fatal, [])
  await rogue.stop()
})
