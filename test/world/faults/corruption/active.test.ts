/** Flipped bits in the active segment and its WAL: nothing wrong is delivered, only that file loses anything, everything goes on. */
import t from 'tap'
import { checkFlips, corruptionWork, makeCorruptible } from '../../../support/faults/corruption.ts'

const flips = Number(process.env.BIT_FLIPS ?? 20)

t.test(`${flips} seeded bit flips in the active segment and its WAL`, async (t) => {
  const work = corruptionWork(t, 'active')
  const corruptible = await makeCorruptible(work)
  const seeds = Array.from({ length: flips }, (_, seed) => seed)
  const outcomes = await checkFlips(corruptible, work, 'active', seeds)
  t.equal(outcomes.length, flips)
  t.same(
    outcomes.filter(({ verdict }) => verdict !== null),
    [],
  )
})
