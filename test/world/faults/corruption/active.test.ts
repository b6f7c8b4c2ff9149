/** Flipped bits in the active segment and its WAL: nothing wrong is delivered, only that file loses anything, everything goes on. */
import t from 'tap'
import { largePageBytes, smallPageBytes } from '../../../../src/log/segments/layout.ts'
import { checkFlips, corruptionWork, makeCorruptible } from '../../../support/faults/corruption.ts'
import { scaled } from '../../../support/scale.ts'

const flips = scaled(20)

for (const largePages of [false, true]) {
  const pages = largePages ? 'large pages' : 'small pages'
  t.test(`${flips} seeded bit flips in the active segment and its WAL, ${pages}`, async (t) => {
    const work = corruptionWork(t, `active-${pages.replace(' ', '-')}`)
    const corruptible = await makeCorruptible(work, { kind: 'active', largePages })
    const files = [...corruptible.image].filter(([name]) => /\d{20}\.db$/.test(name))
    const [, content] = files.at(-1)!
    t.equal(content!.readUInt16BE(16), largePages ? largePageBytes : smallPageBytes)
    const seeds = Array.from({ length: flips }, (_, seed) => seed)
    const outcomes = await checkFlips(corruptible, work, 'active', seeds)
    t.equal(outcomes.length, flips)
    t.same(
      outcomes.filter(({ verdict }) => verdict !== null),
      [],
    )
  })
}
