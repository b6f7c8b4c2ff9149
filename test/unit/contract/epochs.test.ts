/** Epochs: a seq is never given out twice, and what is of a lost timeline is known. */
import t from 'tap'
import { current, type Epoch, epochAfterLost, firstEpochs, nextEpoch } from '../../../src/contract/epochs.ts'

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
