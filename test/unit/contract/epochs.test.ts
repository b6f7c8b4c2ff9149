/** Epochs: a seq is never given out twice, and what is of a lost timeline is known. */
import t from 'tap'
import {
  current,
  type Epoch,
  epochAfterLost,
  firstEpochs,
  isUnreplicated,
  nextEpoch,
  timelineOf,
} from '../../../src/contract/epochs.ts'

const nowMs = Date.UTC(2026, 10, 21)

t.test('every restore begins far above what can have been given out before', async (t) => {
  const restored = [...firstEpochs, nextEpoch(firstEpochs, 900, nowMs)]
  t.same(current(restored), { epoch: 2, first_seq: nowMs * 1000, after_seq: 900 })
  const again = nextEpoch(restored, nowMs * 1000 + 5, nowMs + 1)
  t.equal(again.epoch, 3)
  t.ok(again.first_seq > nowMs * 1000 + 2 ** 40, 'also when two restores follow each other at once')
  const twin = nextEpoch(firstEpochs, 900, nowMs + 1)
  t.ok(twin.first_seq > current(restored).first_seq, 'two restores of one backup')
  t.ok(Number.isSafeInteger(nextEpoch(restored, 2 ** 52, nowMs).first_seq))
})

t.test('a cursor of a lost timeline is told where to go on, and that cursor is of none', async (t) => {
  const second: Epoch = { epoch: 2, first_seq: 10_000, after_seq: 900 }
  // Nothing was accepted in the second epoch before it was backed up in its turn.
  const third: Epoch = { epoch: 3, first_seq: 90_000, after_seq: 900 }
  const fourth: Epoch = { epoch: 4, first_seq: 500_000, after_seq: 90_020 }
  t.equal(epochAfterLost(firstEpochs, 1e15), null)
  const epochs = [...firstEpochs, second]
  for (const seq of [0, 900, 9_999, 10_000, 20_000]) t.equal(epochAfterLost(epochs, seq), null, `${seq}`)
  for (const seq of [901, 950, 9_998]) t.equal(epochAfterLost(epochs, seq), second, `${seq}`)
  const all = [...epochs, third, fourth]
  for (const seq of [901, 9_998, 9_999, 10_010, 89_999, 90_010, 90_021, 499_998]) {
    let cursor = seq
    for (let hops = 0; epochAfterLost(all, cursor) !== null; hops += 1) {
      t.ok(hops < all.length)
      cursor = epochAfterLost(all, cursor)!.first_seq - 1
    }
    t.ok(cursor >= seq, `${seq} goes on at ${cursor}`)
  }
})

t.test('two restores of one state use different numbers, also after an earlier restore', (t) => {
  const nowMs = 1_763_765_000_000
  const restored = [...firstEpochs, nextEpoch(firstEpochs, 900, nowMs)]
  const head = current(restored).first_seq + 20
  const once = nextEpoch(restored, head, nowMs + 10)
  const again = nextEpoch(restored, head, nowMs + 20)
  t.ok(Math.abs(once.first_seq - again.first_seq) >= 10_000, 'apart by the microseconds between them')
  t.end()
})

t.test('who takes a replica over continues the timeline, and nobody else does', (t) => {
  const place = 's3://bucket/prefix'
  const taken: Epoch[] = [...firstEpochs, { epoch: 2, first_seq: 5_000, after_seq: 900, continues: place }]
  t.equal(timelineOf('id', taken, place), timelineOf('id', firstEpochs))
  t.equal(timelineOf('id', taken), 'id/2/5000', 'a copy that does not write the replica')
  t.equal(timelineOf('id', taken, 's3://bucket/other'), 'id/2/5000')
  const again: Epoch[] = [...taken, { epoch: 3, first_seq: 9_000, after_seq: 5_010, continues: place }]
  t.equal(timelineOf('id', again, place), timelineOf('id', firstEpochs), 'more than once')
  const restored: Epoch[] = [...taken, { epoch: 3, first_seq: 9_000, after_seq: 5_010 }]
  t.equal(timelineOf('id', restored, place), 'id/3/9000', 'a restore of a backup begins another')
  t.same(
    [900, 901, 4_999, 5_000].map((seq) => isUnreplicated(taken, seq)),
    [false, true, true, false],
  )
  t.notOk(isUnreplicated(restored, 6_000), 'a restore of a backup is another log')
  t.end()
})
