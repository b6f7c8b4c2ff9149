/**
 * The conformance suite of pull lanes, whatever stores the messages and the lanes' rows (docs/dev/contract.md#pull).
 */
import type { Test } from 'tap'
import type { PullResult } from '../../../src/delivery/delivery.ts'
import type { LaneProcess } from '../../support/lane-process.ts'
import type { Sent } from '../../support/lane-stack.ts'
import { until } from '../../support/until.ts'
import { countsExactly, type OpenBackEnd, openStack, seqsOf } from './lane-conformance.ts'

const pulls = { destination_type: 'destination_pull' as const }
const auto = { ...pulls, destination_config: {} }
const explicit = { ...pulls, destination_config: { ack_mode: 'explicit', lease_seconds: 600 } }
const now = { waitMs: 0, afterSeq: null }
const waiting = { waitMs: 60_000, afterSeq: null }

type Given = Extract<PullResult, { kind: 'message' }>

async function given(answer: PullResult | Promise<PullResult>): Promise<Given> {
  const settled = await answer
  if (settled.kind !== 'message') throw new Error(`no message but ${JSON.stringify(settled)}`)
  return settled
}

/** Pulls until there is nothing, each handed over. */
async function pullAll({ service }: LaneProcess, id: string): Promise<number[]> {
  const seqs: number[] = []
  for (;;) {
    const answer = await service.pull(id, now)
    if (answer.kind !== 'message') return seqs
    seqs.push(answer.seq)
    await service.pulled({ destinationId: id, pullId: answer.pullId })
  }
}

export async function testPullLanes(t: Test, open: OpenBackEnd): Promise<void> {
  const { stack, process: first } = await openStack(t, await open(t))
  let process = first
  const pullLane = async (more: typeof auto | typeof explicit) => {
    const pipeId = await stack.pipe(process)
    const { id } = await stack.lane(pipeId, [process], more)
    return { pipeId, id }
  }

  await t.test('auto: each message once, in order; one that was not handed over comes again', async (t) => {
    const { pipeId, id } = await pullLane(auto)
    const sent = await stack.send(pipeId, 12, { records: 2 })
    const one = await given(process.service.pull(id, now))
    t.match(one, { seq: sent[0]!.seq, msgId: sent[0]!.msgId })
    await process.service.abandoned({ destinationId: id, pullId: one.pullId })
    t.strictSame(await pullAll(process, id), seqsOf(sent))
    await countsExactly(t, stack, process, { id, pipeId }, sent)
  })

  await t.test('a pull that waits is woken by an append', async (t) => {
    const { pipeId, id } = await pullLane(auto)
    t.strictSame(await process.service.pull(id, now), { kind: 'empty' })
    const pull = process.service.pull(id, waiting)
    const [sent] = await stack.send(pipeId, 1, { appender: stack.appenders[1]! })
    const { seq, pullId } = await given(pull)
    t.equal(seq, sent!.seq)
    await process.service.pulled({ destinationId: id, pullId })
  })

  await t.test('after_seq commits up to there and gives the next one', async (t) => {
    const { pipeId, id } = await pullLane(auto)
    const sent = await stack.send(pipeId, 6)
    const after = (seq: number) => process.service.pull(id, { waitMs: 0, afterSeq: seq })
    t.equal((await given(after(0))).seq, sent[0]!.seq)
    t.equal((await given(after(sent[2]!.seq))).seq, sent[3]!.seq)
    t.match(await stack.saved(id), { cursorSeq: sent[2]!.seq, deliveredRecords: 3 })
    await countsExactly(t, stack, process, { id, pipeId }, sent)
    t.equal((await given(after(sent[0]!.seq))).seq, sent[1]!.seq, 'back to what is kept')
    const headSeq = sent[5]!.seq
    t.strictSame(await after(headSeq + 1), { kind: 'cursor_ahead', headSeq })
    t.strictSame(await after(headSeq), { kind: 'empty' })
    const [next] = await stack.send(pipeId, 1)
    t.equal((await given(process.service.pull(id, { waitMs: 60_000, afterSeq: headSeq }))).seq, next!.seq)
    await countsExactly(t, stack, process, { id, pipeId }, [...sent, next!])
  })

  await t.test(
    'explicit: acknowledged is done, refused comes again, and both survive a restart',
    async (t) => {
      const { pipeId, id } = await pullLane(explicit)
      const sent = await stack.send(pipeId, 4, { records: 2 })
      const one = await given(process.service.pull(id, now))
      await process.service.pulled({ destinationId: id, pullId: one.pullId })
      t.strictSame(await process.service.pull(id, now), { kind: 'empty' }, 'one at a time')
      const next = process.service.pull(id, waiting)
      t.equal(await process.service.acknowledge({ destinationId: id, msgId: one.msgId }, true), true)
      const two = await given(next)
      t.equal(two.seq, sent[1]!.seq)
      await process.service.pulled({ destinationId: id, pullId: two.pullId })
      t.equal(await process.service.acknowledge({ destinationId: id, msgId: two.msgId }, false), true)
      t.match(await process.status(id), { attempts: 1, last_error: { code: 'nack' } })
      const again = await given(process.service.pull(id, now))
      t.equal(again.msgId, two.msgId)
      await process.kill()
      process = await stack.start()
      await countsExactly(t, stack, process, { id, pipeId }, sent)
      t.strictSame(await process.service.pull(id, now), { kind: 'empty' }, 'it is out still')
      t.equal(await process.service.acknowledge({ destinationId: id, msgId: again.msgId }, true), true)
      t.match(await stack.saved(id), { cursorSeq: sent[1]!.seq, deliveredRecords: 4, leaseMsgId: null })
      await countsExactly(t, stack, process, { id, pipeId }, sent)
    },
  )

  await t.test('after a rewind and a restart everything comes again', async (t) => {
    const { pipeId, id } = await pullLane(auto)
    const sent = await stack.send(pipeId, 9)
    t.strictSame(await pullAll(process, id), seqsOf(sent))
    const target = { to: 'seq', seq: sent[3]!.seq } as const
    t.strictSame(await process.service.rewind(id, target), { kind: 'rewound', cursorSeq: sent[3]!.seq })
    await process.kill()
    process = await stack.start()
    await countsExactly(t, stack, process, { id, pipeId }, sent)
    t.strictSame(await pullAll(process, id), seqsOf(sent.slice(4)))
  })

  await t.test('what retention dropped is cursor_expired and counted', async (t) => {
    const { stack, process } = await openStack(t, await open(t, 4))
    const pipeId = await stack.pipe(process)
    const { id } = await stack.lane(pipeId, [process], auto)
    const sent: Sent[] = await stack.send(pipeId, 60, { size: 4_096 })
    const old = await process.service.pull(id, { waitMs: 0, afterSeq: sent[1]!.seq })
    t.equal((await given(old)).seq, sent[2]!.seq)
    await until('some is too old', async () => (await process.reader.earliest(pipeId)).seq >= sent[9]!.seq)
    const expired = await process.service.pull(id, { waitMs: 0, afterSeq: sent[1]!.seq })
    t.match(expired, { kind: 'cursor_expired', reason: 'retention' })
    const { earliestSeq } = expired as Extract<PullResult, { kind: 'cursor_expired' }>
    t.ok(earliestSeq > sent[9]!.seq)
    const lane = await process.untilLane(id, 'it is counted', ({ dropped_messages }) => dropped_messages > 0)
    const gone = sent.filter(({ seq }) => seq < earliestSeq).length
    t.ok(lane.dropped_messages >= gone - 2, 'without the two that were committed')
    const [fresh] = await stack.send(pipeId, 1)
    const rest = await pullAll(process, id)
    t.equal(rest.at(-1), fresh!.seq)
    const { dropped_messages } = await process.status(id)
    t.equal(2 + dropped_messages + rest.length, sent.length + 1, 'committed, dropped or pulled')
  })
}
