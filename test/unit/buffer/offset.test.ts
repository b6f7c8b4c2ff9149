/** The numbers of an epoch over a buffer that begins with 1, both ways; and why they are not the buffer's own. */
import t from 'tap'
import { epochAfterLost, movedEpoch } from '../../../src/contract/epochs.ts'
import type { BufferFeed, BufferReader, MessageLookup } from '../../../src/log/buffer.ts'
import { offsetFeed, offsetLookup, offsetReader, seqBaseOf, withoutBase } from '../../../src/log/offset.ts'

const base = 1_000_000

/** Answers with the seqs that it is asked with. */
function echo() {
  const asked: unknown[] = []
  const message = { pipeId: 'p', msgId: 'm', receivedMs: 0, recordCount: 1, body: Buffer.alloc(0), mark: '' }
  const reader: BufferReader = {
    async read(_, afterSeq, { throughSeq }) {
      asked.push([afterSeq, throughSeq])
      const lost = [{ firstSeq: 3, to: { seq: 4, mark: '' }, messages: 2 }]
      const damaged = [{ seq: 6, msgId: 'd', recordCount: 1, mark: '' }]
      return { messages: [{ ...message, seq: 5 }], more: false, damaged, lost }
    },
    head: async () => ({ seq: 0, mark: 'empty' }),
    heads: async (afterSeq) => ({ newestSeq: 9, pipes: new Map([['p', afterSeq + 1]]) }),
    earliest: async () => ({ seq: 2, mark: 'e' }),
    cursorAt: async (_, seq) => ({ seq, mark: 'c' }),
    cursorAtTime: async () => 7,
    backlog: async (_, { seq }, throughSeq) => ({ messages: seq, records: throughSeq ?? -1, bytes: 0 }),
    relocate: async (_, cursor) => ({ cursor, missing: 1 }),
    pipeIds: async () => ['p'],
    close: async () => {},
  }
  return { reader, asked }
}

t.test('a reader is asked with its own numbers and answers with the epoch’s', async (t) => {
  const { reader, asked } = echo()
  const outside = offsetReader(reader, base)
  const limits = { maxRecords: 1, maxBytes: 1, throughSeq: base + 8 }
  const run = await outside.read('p', base + 4, limits)
  t.same(asked, [[4, 8]])
  t.match(run, {
    messages: [{ seq: base + 5 }],
    damaged: [{ seq: base + 6 }],
    lost: [{ firstSeq: base + 3, to: { seq: base + 4 } }],
  })
  t.same(await outside.head('p'), { seq: 0, mark: 'empty' }, 'none stays none')
  t.same(await outside.heads(base + 1), { newestSeq: base + 9, pipes: new Map([['p', base + 2]]) })
  t.equal((await outside.earliest('p')).seq, base + 2)
  t.equal((await outside.cursorAt('p', base + 3)).seq, base + 3)
  t.equal((await outside.cursorAt('p', 500)).seq, 0, 'a number of an earlier epoch lies before everything')
  t.equal(await outside.cursorAtTime('p', 0), base + 7)
  t.same(await outside.backlog('p', { seq: base + 1, mark: '' }, base + 2), {
    messages: 1,
    records: 2,
    bytes: 0,
  })
  t.same(await outside.relocate('p', { seq: base + 1, mark: 'm' }), {
    cursor: { seq: base + 1, mark: 'm' },
    missing: 1,
  })
  const inside = offsetReader(outside, -base)
  t.equal((await inside.earliest('p')).seq, 2, 'and off again')
  t.same(await inside.backlog('p', { seq: 1, mark: '' }, 2), { messages: 1, records: 2, bytes: 0 })
  t.equal(offsetReader(reader, 0), reader, 'the first epoch costs nothing')
})

t.test('so do look-up and feed', async (t) => {
  const lookup: MessageLookup = {
    find: async () => null,
    list: async (_, { beforeSeq, afterSeq }) => [
      { seq: beforeSeq, msgId: String(afterSeq), receivedMs: 0, recordCount: 1, bytes: 1, beginning: null },
    ],
    read: async (_, { beforeSeq, afterSeq, maxBytes }) => [
      {
        seq: beforeSeq,
        msgId: `${afterSeq} ${maxBytes}`,
        receivedMs: 0,
        recordCount: 1,
        bytes: 1,
        body: null,
      },
    ],
    close: async () => {},
  }
  const outside = offsetLookup(lookup, base)
  t.equal(await outside.find('m'), null)
  t.match(await outside.list('p', { beforeSeq: base + 5, afterSeq: base + 1, limit: 1 }), [
    { seq: base + 5, msgId: '1' },
  ])
  const between = { beforeSeq: base + 5, afterSeq: base + 1, limit: 1, maxBytes: 9 }
  t.match(await outside.read('p', between), [{ seq: base + 5, msgId: '1 9' }])
  const reported: unknown[] = []
  const feed: BufferFeed = {
    onCommitted: (listener) => listener([['p', 3]]),
    onDropped: () => {},
    reportLowWatermarks: (watermarks) => reported.push(...watermarks),
    onErased: () => {},
    onReportWanted: () => {},
    pipeDeleted: () => {},
    close: () => {},
  }
  const heard: unknown[] = []
  const wrapped = offsetFeed(feed, base)
  wrapped.onCommitted((pipes) => heard.push(...pipes))
  t.same(heard, [['p', base + 3]])
  wrapped.reportLowWatermarks([
    { pipeId: 'p', workspaceId: 'w', seq: base + 2, retentionHours: 1 },
    { pipeId: 'q', workspaceId: 'w', seq: 0, retentionHours: null },
  ])
  t.match(reported, [
    { seq: 2, retentionHours: 1 },
    { seq: 0, retentionHours: null },
  ])
})

t.test('the base is what the epoch says', async (t) => {
  t.equal(seqBaseOf({}), 0)
  t.equal(seqBaseOf({ nextSeqAtLeast: 1 }), 0)
  t.equal(seqBaseOf({ nextSeqAtLeast: base + 1 }), base)
  t.same(withoutBase({ nextSeqAtLeast: base + 1, knownSeq: base + 7 }), {
    nextSeqAtLeast: base + 1,
    knownSeq: 7,
  })
})

t.test('after a move every earlier number is of a timeline that has ended', async (t) => {
  const first = { epoch: 1, first_seq: 1, after_seq: 0 }
  const restored = { epoch: 2, first_seq: 10_000, after_seq: 900 }
  const moved = movedEpoch([first, restored], 10_500, 20)
  t.match(moved, { epoch: 3, after_seq: 0 })
  t.ok(moved.first_seq > 10_500)
  for (const seq of [1, 900, 950, 10_400])
    t.equal(epochAfterLost([first, restored, moved], seq), moved, `${seq}`)
  t.equal(
    epochAfterLost([first, restored, moved], moved.first_seq - 1),
    null,
    'with this one a consumer goes on',
  )
  t.equal(epochAfterLost([first, restored], 950), restored)
  t.equal(epochAfterLost([first, restored], 900), null)
})
