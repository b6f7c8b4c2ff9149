/** docs/dev/contract.md#fair-share-of-the-buffer: above 80 % one pipe or workspace cannot keep the others out. */
import t from 'tap'
import { v4 } from 'uuid'
import { FairShare } from '../../../src/log/fair-share.ts'
import { LowWatermarks } from '../../../src/log/segments/retention.ts'
import { until } from '../../support/until.ts'
import { KiB, MiB, message, newPipeId, openAt, temporaryDirectory, watermark } from './open.ts'

const block = 'x'.repeat(8 * KiB)
const settings = { maxBytes: 3 * MiB, segmentMaxBytes: 128 * KiB, deliveredMaxBytes: 0 }

t.test('a pipe that has had its share is rejected, the others go on to the whole buffer', async (t) => {
  const [hog, other, idle] = [newPipeId(), newPipeId(), newPipeId()]
  const maxBytes = 12 * MiB
  const spec = { maxBytes, segmentMaxBytes: 256 * KiB, deliveredMaxBytes: 0 }
  const { handle, feed } = await openAt(t, temporaryDirectory(t), spec)
  /** How much of the buffer the pipe gets, in bodies, until it is rejected. */
  const fillUp = async (pipeId: string) => {
    for (let taken = 0; taken < maxBytes; ) {
      const group = Array.from({ length: 8 }, () => handle.appender.append(message(pipeId, block)))
      const results = await Promise.allSettled(group)
      taken += results.filter(({ status }) => status === 'fulfilled').length * block.length
      const rejected = results.find((result) => result.status === 'rejected')
      if (rejected !== undefined) return { reason: rejected.reason.reason, part: taken / maxBytes }
    }
    throw new Error('never rejected')
  }
  let hogSeq = 0
  // As delivery does when it is asked.
  const report = () =>
    feed.reportLowWatermarks([watermark(hog, hogSeq), watermark(other, 0), watermark(idle, 0)])
  feed.onReportWanted(report)
  report()
  t.match(await fillUp(hog), { reason: 'pipe_share' })
  await until('the status says so: the buffer is four fifths full', async () => {
    return (await handle.status()).bytes > 0.75 * maxBytes
  })
  t.equal((await handle.status()).unavailableReason, null)
  await handle.appender.append(message(other, block))
  const again = await fillUp(hog)
  t.match(again, { reason: 'pipe_share' })
  // Sealing a segment truncates its WAL: that much may come free below four fifths.
  t.ok(again.part < 0.05, `${again.part}`)
  await handle.appender.append(message(idle, block))
  const second = await fillUp(other)
  t.match(second, { reason: 'over_quota' })
  // Bodies are some four fifths of what is on disk, and a look at the disk is due after a 64th.
  t.ok(second.part > 0.12, `the last fifth is for the others: ${second.part}`)
  // Delivered messages do not count.
  hogSeq = await handle.headSeq()
  report()
  await until('the hog is taken again', () =>
    handle.appender.append(message(hog, block)).then(
      () => true,
      () => false,
    ),
  )
})

t.test('a pipe whose messages are all delivered is never rejected, beside an idle pipe', async (t) => {
  const [pulled, idle] = [newPipeId(), newPipeId()]
  const spec = { maxBytes: 6 * MiB, segmentMaxBytes: 256 * KiB }
  const { handle, feed } = await openAt(t, temporaryDirectory(t), spec)
  let deliveredSeq = 0
  const report = () => feed.reportLowWatermarks([watermark(pulled, deliveredSeq), watermark(idle, 0)])
  report()
  feed.onReportWanted(report)
  await handle.appender.append(message(idle, 'x'.repeat(5 * KiB)))
  const rejected: unknown[] = []
  for (let n = 0; n < 1_000; n += 1) {
    try {
      deliveredSeq = (await handle.appender.append(message(pulled, 'x'.repeat(30_000)))).seq
    } catch (error) {
      rejected.push(error)
    }
  }
  t.same(rejected, [])
})

t.test('one frame holds both what is rejected and what is kept', async (t) => {
  const [hog, other] = [newPipeId(), newPipeId()]
  const { handle, feed } = await openAt(t, temporaryDirectory(t), settings)
  feed.reportLowWatermarks([watermark(hog, 0), watermark(other, 0)])
  await until('the share is used up', () =>
    handle.appender.append(message(hog, block)).then(
      () => false,
      (error) => error.reason === 'pipe_share',
    ),
  )
  const results = await Promise.allSettled(
    [hog, other, hog, other].map((pipeId) => handle.appender.append(message(pipeId, 'x'))),
  )
  t.same(
    results.map(({ status }) => status),
    ['rejected', 'fulfilled', 'rejected', 'fulfilled'],
  )
  const seqs = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.seq] : []))
  t.equal(seqs[1], seqs[0]! + 1)
})

t.test('a pipe alone may fill the whole buffer', async (t) => {
  const pipeId = newPipeId()
  const { handle, feed } = await openAt(t, temporaryDirectory(t), settings)
  feed.reportLowWatermarks([watermark(pipeId, 0)])
  let reason: unknown = null
  await until('the buffer is full', () =>
    handle.appender.append(message(pipeId, block)).then(
      () => false,
      (error) => {
        reason = error.reason
        return true
      },
    ),
  )
  t.equal(reason, 'over_quota')
})

t.test('a workspace with many pipes gets no more than its share either', async (t) => {
  const [one, two] = [v4(), v4()]
  const ofOne = Array.from({ length: 4 }, newPipeId)
  const ofTwo = newPipeId()
  const watermarks = new LowWatermarks()
  watermarks.report([
    ...ofOne.map((pipeId) => ({ pipeId, workspaceId: one, seq: 0, retentionHours: null })),
    { pipeId: ofTwo, workspaceId: two, seq: 0, retentionHours: null },
  ])
  let share = new FairShare(1_000, new Map(ofOne.map((pipeId) => [pipeId, 124])), watermarks.workspaces())
  t.ok(share.take(ofOne[0]!, 10), '496 of 500, and no pipe over 200')
  t.notOk(share.take(ofOne[1]!, 10), 'the workspace holds 506')
  t.ok(share.take(ofTwo, 10))
  share = new FairShare(1_000, new Map([[ofOne[0]!, 201]]), watermarks.workspaces())
  t.notOk(share.take(ofOne[0]!, 1), 'a pipe over a fifth, since there are five')
  t.ok(share.take(ofOne[1]!, 1))
  const unknown = newPipeId()
  t.ok(share.take(unknown, 100), 'a pipe made since the last report counts as a pipe')
})
