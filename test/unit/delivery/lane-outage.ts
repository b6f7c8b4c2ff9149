/** The buffer is elsewhere and does not answer for a while: part of the lanes' conformance, where that can be. */
import type { Test } from 'tap'
import type { TestNatsServer } from '../../support/nats.ts'
import { until } from '../../support/until.ts'
import { countsExactly, isIdle, isInOrder, type OpenBackEnd, openStack, seqsOf } from './lane-conformance.ts'

export async function testOutage(t: Test, open: OpenBackEnd, server: TestNatsServer): Promise<void> {
  await t.test('lanes wait for a server that was killed, and go on in order', async (t) => {
    const { stack, process } = await openStack(t, await open(t))
    const pipeId = await stack.pipe(process)
    const { id, destination } = await stack.lane(pipeId, [], { batch: 3 })
    destination.react = (_, attempt) => (attempt === 2 ? 'slow' : 'store')
    const pull = await stack.lane(pipeId, [process], {
      destination_type: 'destination_pull',
      destination_config: {},
    })
    const sent = await stack.send(pipeId, 20)
    await until('the second batch is under way', () => destination.waiting === 1)
    await server.kill()
    destination.release()
    await until('a lane waits', () => process.events('lanes.read_delayed').length > 0)
    t.strictSame(process.fatal, [])
    await t.rejects(stack.send(pipeId, 1), { name: 'BufferUnavailableError' })
    t.ok(destination.stored.length < sent.length)
    await server.restart()
    const more = await until('it takes messages again', async () => await stack.send(pipeId, 2))
    await until('everything came', () => destination.stored.at(-1) === more.at(-1)!.seq)
    await process.untilLane(id, 'idle', isIdle)
    // An append that was rejected may have been kept all the same.
    const unknown = destination.stored.filter((seq) => seq > sent.at(-1)!.seq && seq < more[0]!.seq)
    t.strictSame(destination.stored, [...seqsOf(sent), ...unknown, ...seqsOf(more)])
    t.equal(process.events('lanes.read_resumed').length, process.events('lanes.read_delayed').length)
    t.strictSame(process.fatal, [])
    if (unknown.length === 0) {
      isInOrder(t, destination, [...sent, ...more])
      await stack.untilSaved(id, 'saved', ({ cursorSeq }) => cursorSeq === more.at(-1)!.seq)
      await countsExactly(t, stack, process, { id, pipeId }, [...sent, ...more])
    }
    const pulled = await process.service.pull(pull.id, { waitMs: 0, afterSeq: null })
    t.match(pulled, { kind: 'message', seq: sent[0]!.seq })
  })
}
