/** A process ends, a lane is rewound, retention removes messages: part of the lanes' conformance suite. */
import type { Test } from 'tap'
import type { Sent } from '../../support/lane-stack.ts'
import { transient } from '../../support/recording-driver.ts'
import { until } from '../../support/until.ts'
import { countsExactly, isIdle, isInOrder, type OpenBackEnd, openStack, seqsOf } from './lane-conformance.ts'

export async function testRestarts(t: Test, open: OpenBackEnd): Promise<void> {
  const { stack, process: first } = await openStack(t, await open(t))
  let process = first
  const restart = async () => {
    await process.kill()
    process = await stack.start()
  }
  const untilDone = async (id: string, sent: readonly Sent[]) => {
    await stack.untilSaved(id, 'all is saved', ({ cursorSeq }) => cursorSeq === sent.at(-1)!.seq)
    return await process.untilLane(id, 'all is delivered', isIdle)
  }

  await t.test(
    'a range under way survives the process: the same messages under the same identity',
    async (t) => {
      const pipeId = await stack.pipe(process)
      const { id, destination } = await stack.lane(pipeId, [], { batch: 4 })
      destination.react = (_, attempt) => (attempt === 2 ? 'hang' : 'store')
      const sent = await stack.send(pipeId, 10)
      await process.lanes.refresh(pipeId)
      await until('the second is under way', () => destination.attempts.length === 2)
      sent.push(...(await stack.send(pipeId, 6)))
      await process.kill()
      const { cursorSeq } = await stack.saved(id)
      t.equal(cursorSeq, sent[3]!.seq, 'in the middle of what was appended at once')
      process = await stack.start()
      const lane = await untilDone(id, sent)
      t.match(lane, { delivered_records: 16, attempts: 0 })
      const [, before, again] = destination.attempts
      t.strictSame(again, before)
      t.strictSame(destination.stored, seqsOf(sent), 'what hung was not stored: each once')
      isInOrder(t, destination, sent)
      await countsExactly(t, stack, process, { id, pipeId }, sent)
    },
  )

  for (const when of ['before', 'after'] as const) {
    await t.test(`a process that dies ${when} a save loses nothing and changes no order`, async (t) => {
      const pipeId = await stack.pipe(process)
      const { id, destination } = await stack.lane(pipeId, [process], { batch: 4 })
      const sent: Sent[] = []
      for (let deaths = 0; deaths < 4; deaths += 1) {
        const { saves } = process
        sent.push(...(await stack.send(pipeId, 11)))
        await until('some is saved', () => process.saves >= saves + deaths)
        process.dieAtSave = when
        sent.push(...(await stack.send(pipeId, 11)))
        await until('it died', () => !process.isAlive)
        await restart()
      }
      await untilDone(id, sent)
      isInOrder(t, destination, sent)
      await countsExactly(t, stack, process, { id, pipeId }, sent)
    })
  }

  await t.test('what was delivered and not saved comes again, and what was saved does not', async (t) => {
    for (const when of ['before', 'after'] as const) {
      const pipeId = await stack.pipe(process)
      const { id, destination } = await stack.lane(pipeId, [process])
      destination.react = (_, attempt) => (attempt === 1 ? 'slow' : 'store')
      const sent = await stack.send(pipeId, 3)
      await until('it is under way', () => destination.waiting === 1)
      const count = destination.attempts[0]!.seqs.length
      process.dieAtSave = when
      destination.release()
      await until('it died', () => !process.isAlive)
      await restart()
      await untilDone(id, sent)
      isInOrder(t, destination, sent)
      const repeats = destination.stored.length - sent.length
      t.equal(repeats, when === 'before' ? count : 0, `${when} the save`)
    }
  })

  await t.test(
    'a rewind delivers again from there, and the destination is told that it is one',
    async (t) => {
      const pipeId = await stack.pipe(process)
      const { id, destination } = await stack.lane(pipeId, [process], { batch: 4 })
      const sent = await stack.send(pipeId, 10)
      await untilDone(id, sent)
      const earlier = Date.now()
      await until('the clock moves', () => Date.now() > earlier)
      const pivotMs = Date.now()
      sent.push(...(await stack.send(pipeId, 5, { records: 3 })))
      await untilDone(id, sent)
      const head = sent.at(-1)!.seq
      const rewound = async (
        to: Parameters<typeof process.service.rewind>[1],
        cursorSeq: number,
        from: number,
      ) => {
        const { stored } = destination
        const { length } = stored
        const { generation } = await stack.saved(id)
        const generations = new Set<number | undefined>()
        destination.react = (batch) => {
          generations.add(batch.generation)
          return 'store'
        }
        t.strictSame(await process.service.rewind(id, to), { kind: 'rewound', cursorSeq })
        await until('all came again', () => stored.length === length + sent.length - from)
        await untilDone(id, sent)
        t.strictSame(stored.slice(length), seqsOf(sent.slice(from)))
        t.strictSame([...generations], [(await stack.saved(id)).generation])
        t.ok((await stack.saved(id)).generation > generation)
        await countsExactly(t, stack, process, { id, pipeId }, sent)
      }
      await rewound({ to: 'seq', seq: sent[6]!.seq }, sent[6]!.seq, 7)
      const before = await process.reader.cursorAt(pipeId, sent[10]!.seq - 1)
      await rewound({ to: 'time', timeMs: pivotMs }, before.seq, 10)
      await rewound({ to: 'earliest' }, (await process.reader.earliest(pipeId)).seq, 0)
      t.strictSame(await process.service.rewind(id, { to: 'seq', seq: head + 1 }), {
        kind: 'ahead',
        cursorSeq: head,
      })
      destination.react = () => 'hang'
      await process.service.rewind(id, { to: 'seq', seq: sent[2]!.seq })
      await stack.untilSaved(id, 'a range is saved', ({ batchFirstSeq }) => batchFirstSeq === sent[3]!.seq)
      await countsExactly(t, stack, process, { id, pipeId }, sent)
      const { length } = destination.stored
      await restart()
      await countsExactly(t, stack, process, { id, pipeId }, sent)
      destination.react = () => 'store'
      await restart()
      await untilDone(id, sent)
      t.strictSame(destination.stored.slice(length), seqsOf(sent.slice(3)))
      await countsExactly(t, stack, process, { id, pipeId }, sent)
    },
  )

  await t.test(
    'whatever comes together: nothing is lost, nothing overtakes, every count is exact',
    async (t) => {
      const pipeId = await stack.pipe(process)
      const lanes = [
        await stack.lane(pipeId, [process], { batch: 5 }),
        await stack.lane(pipeId, [process], { batch: 16 }),
      ]
      const sent: Sent[] = []
      const steps: string[] = []
      const pick = (count: number) => Math.floor(Math.random() * count)
      for (const { destination } of lanes) {
        let failures = 4
        destination.react = () => {
          if (failures === 0 || pick(8) > 0) return 'store'
          failures -= 1
          // A message that was stored although the reply was lost is sent again.
          return failures % 2 === 0 ? transient('http_503') : 'lost'
        }
      }
      const doing: Record<string, () => Promise<void>> = {
        die: async () => {
          process.dieAtSave = pick(2) === 0 ? 'before' : 'after'
          sent.push(...(await stack.send(pipeId, 3)))
          await until('it died', () => !process.isAlive)
          await restart()
        },
        kill: restart,
        rewind: async () => {
          const { id } = lanes[pick(2)]!
          const { seq } = sent[pick(sent.length)] ?? { seq: 0 }
          await process.service.rewind(id, { to: 'seq', seq })
        },
        retry: async () => void (await process.service.retryNow(lanes[pick(2)]!.id)),
        done: async () => {
          for (const { id } of lanes) await untilDone(id, sent)
        },
      }
      for (let step = 0; step < 24; step += 1) {
        const appenders = stack.appenders.slice(0, 1 + pick(3))
        const writing = appenders.map((appender) =>
          stack.send(pipeId, 1 + pick(30), { appender, records: 1 + pick(3) }),
        )
        const what = Object.keys(doing)[pick(5)]!
        steps.push(what)
        if (pick(2) === 0) await Promise.all(writing)
        if (what !== 'done') await doing[what]!()
        sent.push(...(await Promise.all(writing)).flat())
        sent.sort((a, b) => a.seq - b.seq)
        if (what === 'done') await doing[what]!()
      }
      t.comment(steps.join(' '))
      await doing.done!()
      for (const { id, destination } of lanes) {
        isInOrder(t, destination, sent)
        await countsExactly(t, stack, process, { id, pipeId }, sent)
      }
    },
  )

  await t.test('what retention dropped is counted, and the counts stay exact behind it', async (t) => {
    const { stack, process: first } = await openStack(t, await open(t, 4))
    const process = first
    const pipeId = await stack.pipe(process)
    const { id, destination } = await stack.lane(pipeId, [process], { batch: 10 })
    destination.react = () => transient('http_503', 3_600_000)
    const sent = await stack.send(pipeId, 60, { size: 4_096 })
    await process.untilLane(id, 'it failed', ({ attempts }) => attempts > 0)
    await until('some is too old', async () => (await process.reader.earliest(pipeId)).seq >= sent[9]!.seq)
    await process.untilLane(id, 'that is counted', ({ dropped_messages }) => dropped_messages > 0)
    destination.react = () => 'store'
    await process.service.retryNow(id)
    const late = await stack.send(pipeId, 3)
    sent.push(...late)
    const settled = async () => {
      await stack.untilSaved(id, 'all is saved', ({ cursorSeq }) => cursorSeq >= sent.at(-1)!.seq)
      return await process.status(id)
    }
    const lane = await settled()
    const { stored } = destination
    t.ok(lane.dropped_messages >= 10)
    t.equal(lane.dropped_messages + stored.length, sent.length, 'each is delivered or counted as dropped')
    t.strictSame(
      [...stored].sort((a, b) => a - b),
      stored,
    )
    t.equal(lane.delivered_records, stored.length)
    t.equal(lane.pending_messages, 0)
    await restart()
    destination.react = () => 'hang'
    t.match(await process.status(id), {
      dropped_messages: lane.dropped_messages,
      pending_messages: 0,
      pending_bytes: 0,
    })
    const { cursorSeq, cursorMark } = await stack.saved(id)
    const more = await stack.send(pipeId, 4, { records: 2 })
    const bytes = more.reduce((sum, one) => sum + one.bytes, 0)
    const backlog = await process.reader.backlog(pipeId, { seq: cursorSeq, mark: cursorMark! })
    t.strictSame(backlog, { messages: 4, records: 8, bytes }, 'also when they are dropped by now')
  })
}
