/** Who delivers a pipe changes: part of the lanes' conformance, where several processes share a back end. */
import type { Test } from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { LaneStack, type Sent } from '../../support/lane-stack.ts'
import { until } from '../../support/until.ts'
import { countsExactly, isIdle, isInOrder, type OpenBackEnd, openStack, seqsOf } from './lane-conformance.ts'

const refusal = new DeliveryError('permanent', 'refused', 'This will never do.', { fault: 'records' })

export async function testTakeOver(t: Test, open: OpenBackEnd): Promise<void> {
  await t.test(
    'another goes on at the saved place; who lost the pipe without noticing saves nothing',
    async (t) => {
      const { stack, process: first } = await openStack(t, await open(t))
      const pipeId = await stack.pipe(first)
      const { id, destination } = await stack.lane(pipeId, [], { batch: 4 })
      destination.react = (_, attempt) => (attempt === 2 ? 'slow' : 'store')
      const sent = await stack.send(pipeId, 12)
      await first.lanes.refresh(pipeId)
      await until('the second batch is under way', () => destination.waiting === 1)
      const epoch = first.ownership.owned(pipeId)!
      first.believes.set(pipeId, epoch)
      await first.ownership.close()
      const second = await stack.start()
      await stack.untilSaved(id, 'the other has it', ({ ownerEpoch }) => ownerEpoch > epoch)
      await stack.untilSaved(id, 'all is delivered', ({ cursorSeq }) => cursorSeq === sent[11]!.seq)
      const [, before, again] = destination.attempts
      t.strictSame(again, before, 'the range under way, under the same identity')
      const row = await stack.saved(id)
      // Its reply is there now: without the fence it would save the end of its batch, which lies far behind.
      destination.release()
      await until('it noticed', () => first.events('lane.ownership_lost').length > 0)
      t.strictSame(await stack.saved(id), row)
      t.equal(first.lanes.lane(id), undefined)
      t.strictSame(first.fatal, [])
      isInOrder(t, destination, sent)
      sent.push(...(await stack.send(pipeId, 3)))
      await second.untilLane(id, 'it goes on', ({ cursor_seq }) => cursor_seq === sent.at(-1)!.seq)
      await stack.untilSaved(id, 'that is saved', ({ cursorSeq }) => cursorSeq === sent.at(-1)!.seq)
      await countsExactly(t, stack, second, { id, pipeId }, sent)
    },
  )

  await t.test('a replay of which two owners have each stored a part loses no record', async (t) => {
    const { stack, process: first } = await openStack(t, await open(t))
    const pipeId = await stack.pipe(first)
    const { id, destination } = await stack.lane(pipeId, [first], { on_permanent_error: 'park' })
    destination.react = () => refusal
    const [message] = await stack.send(pipeId, 1, { records: 10 })
    await stack.untilSaved(id, 'it is parked', ({ cursorSeq }) => cursorSeq === message!.seq)
    destination.react = () => 'partly'
    destination.takes = 3
    destination.isSlowWhenFull = true
    const which = { ids: null, errorCode: null, reason: null }
    await stack.metadata.parked.replayMany(
      { workspaceId: stack.backEnd.workspaceId, destinationId: id },
      which,
    )
    await first.service.parkedChanged(id)
    await until('the first owner has stored records 0 to 2', () => destination.waiting === 1)
    first.believes.set(pipeId, first.ownership.owned(pipeId)!)
    await first.ownership.close()
    destination.takes = 4
    destination.isSlowWhenFull = false
    const second = await stack.start()
    const firstIndex = async () => (await stack.metadata.parkedStore.nextReplay(id, message!.seq))?.firstIndex
    await until('the second owner has saved that it stored 0 to 3', async () => (await firstIndex()) === 4)
    // Without the fence it would now cut its three records off what the second owner left.
    destination.release()
    await until('the first owner noticed', () => first.events('lane.ownership_lost').length > 0)
    t.equal(await firstIndex(), 4)
    destination.takes = 100
    await second.untilLane(id, 'nothing is parked any more', ({ parked_records }) => parked_records === 0)
    const stored = new Set(destination.records)
    const missing = Array.from({ length: 10 }, (_, index) => `${message!.seq}:${index}`).filter(
      (place) => !stored.has(place),
    )
    t.strictSame(missing, [], 'every record was stored')
    t.strictSame([first.fatal, second.fatal], [[], []])
  })

  await t.test('a replay of a range continues at another owner, under the same identity', async (t) => {
    const { stack, process: first } = await openStack(t, await open(t))
    const pipeId = await stack.pipe(first)
    const { id, destination } = await stack.lane(pipeId, [first], { batch: 4 })
    const sent = await stack.send(pipeId, 8)
    const last = sent.at(-1)!.seq
    await stack.untilSaved(id, 'all is delivered', ({ cursorSeq }) => cursorSeq === last)
    destination.attempts.length = 0
    destination.stored.length = 0
    destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
    const ref = { workspaceId: stack.backEnd.workspaceId, pipeId, destinationId: id }
    const { reader } = first.lanes
    const after = await reader.cursorAt(pipeId, 0)
    const counted = { ...(await reader.backlog(pipeId, after)), first_seq: sent[0]!.seq, last_seq: last }
    const range = { from: 'earliest', to: 'now', ...counted, after, throughSeq: last }
    const made = await stack.metadata.replays.create(ref, range)
    t.equal(made.kind, 'created')
    const shown = async () => (await stack.metadata.replays.list(ref))[0]!
    await first.service.parkedChanged(id)
    await until('the first batch is under way', () => destination.waiting === 1)
    first.believes.set(pipeId, first.ownership.owned(pipeId)!)
    await first.ownership.close()
    const second = await stack.start()
    await until('the second owner has replayed all', async () => (await shown()).state === 'done')
    const done = await shown()
    t.match(done, { messages: 8, done_messages: 8, replayed_records: counted.records })
    const [under, again] = destination.attempts
    t.strictSame(again, under, 'the batch under way, under the same identity')
    // Its reply is there now: without the fence it would save the end of its first batch.
    destination.release()
    await until('the first owner noticed', () => first.events('lane.ownership_lost').length > 0)
    t.strictSame(await shown(), done)
    const stored = new Set(destination.stored)
    t.strictSame(
      sent.filter(({ seq }) => !stored.has(seq)),
      [],
      'every message was stored',
    )
    t.strictSame([first.fatal, second.fatal], [[], []])
  })

  await t.test('negative control: as long as the lease is its own, the same save is taken', async (t) => {
    const { stack, process } = await openStack(t, await open(t))
    const pipeId = await stack.pipe(process)
    const { id, destination } = await stack.lane(pipeId, [process], { batch: 4 })
    destination.react = () => 'slow'
    const sent = await stack.send(pipeId, 4)
    await until('a batch is under way', () => destination.waiting === 1)
    destination.react = () => 'store'
    destination.release()
    const row = await stack.untilSaved(id, 'saved', ({ cursorSeq }) => cursorSeq === sent[3]!.seq)
    t.equal(row.ownerEpoch, process.ownership.owned(pipeId))
  })

  await t.test('who cannot reach metadata stops before another may begin', async (t) => {
    const backEnd = await open(t)
    const { metadata, proxy } = await backEnd.openCuttable!()
    const stack = await LaneStack.open(backEnd)
    t.teardown(() => stack.close())
    const first = await stack.start(metadata)
    const pipeId = await stack.pipe(first)
    const { id, destination } = await stack.lane(pipeId, [], { batch: 4 })
    const abortsAt: number[] = []
    destination.react = (_, attempt) => {
      abortsAt.push(destination.aborts)
      return attempt === 2 ? 'slow' : 'store'
    }
    const sent = await stack.send(pipeId, 12)
    await first.lanes.refresh(pipeId)
    await until('the second batch is under way', () => destination.waiting === 1)
    const epoch = first.ownership.owned(pipeId)!
    proxy.setMode({ kind: 'hold' })
    const second = await stack.start()
    await stack.untilSaved(id, 'all is delivered', ({ cursorSeq }) => cursorSeq === sent[11]!.seq)
    t.strictSame(abortsAt.slice(0, 3), [0, 0, 1], 'aborted when the other began')
    t.strictSame(destination.attempts[2], destination.attempts[1], 'with the range that was under way')
    t.ok((await stack.saved(id)).ownerEpoch > epoch)
    t.equal(first.ownership.holds(pipeId, epoch), false)
    proxy.setMode({ kind: 'pass' })
    sent.push(...(await stack.send(pipeId, 9)))
    await stack.untilSaved(id, 'it goes on', ({ cursorSeq }) => cursorSeq === sent.at(-1)!.seq)
    isInOrder(t, destination, sent)
    t.strictSame(destination.stored, seqsOf(sent), 'what was aborted was not stored: each once')
    t.strictSame([first.fatal, second.fatal], [[], []])
  })

  await t.test('a node that comes gets its share in order: nothing twice, nothing missing', async (t) => {
    const { stack, process: first } = await openStack(t, await open(t))
    const lanes = await Promise.all(
      Array.from({ length: 12 }, async () => {
        const pipeId = await stack.pipe(first)
        return { pipeId, ...(await stack.lane(pipeId, [first], { batch: 5 })), sent: [] as Sent[] }
      }),
    )
    const write = async () => {
      for (const { pipeId, sent } of lanes) sent.push(...(await stack.send(pipeId, 8)))
    }
    await write()
    const second = await stack.start()
    await until('it has its share', async () => {
      await write()
      return lanes.some(({ pipeId }) => second.ownership.owned(pipeId) !== null)
    })
    await write()
    for (const { id, pipeId, destination, sent } of lanes) {
      await stack.untilSaved(id, 'all is saved', ({ cursorSeq }) => cursorSeq === sent.at(-1)!.seq)
      t.strictSame(destination.stored, seqsOf(sent), 'handed over between two batches')
      isInOrder(t, destination, sent)
      const owner = await until('it has an owner', () =>
        [first, second].find(({ ownership, lanes: set }) => ownership.owned(pipeId) !== null && set.lane(id)),
      )
      await owner.untilLane(id, 'idle', isIdle)
      await countsExactly(t, stack, owner, { id, pipeId }, sent)
    }
  })
}
