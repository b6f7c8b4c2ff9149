/** Single bits and pages of the buffer's segments are damaged. What was on them is lost, and nothing else. */
import t from 'tap'
import { copyOf, goesOn, makeBase } from './damaged-directory.ts'
import { flipBit, flipBitOfRecord, garbage, leafPage, overwrite, zeroPage } from './damaging.ts'

const base = await makeBase(t)

for (const [which, at] of [
  ['a sealed segment', 5],
  ['the active segment', -1],
] as const) {
  t.test(`a bit in a body of ${which}`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'stopped')
    const { file, numbers } = segments.at(at)!
    const hurt = numbers[2]!
    flipBitOfRecord(file, hurt)
    await goesOn(t, base, dataDir, { told: ['buffer.message_damaged'], mayLose: [hurt], dropped: 1 })
  })

  t.test(`a bit in the header of a page with messages of ${which}`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'stopped')
    const { file } = segments.at(at)!
    const { offset, numbers } = leafPage(file)
    flipBit(file, offset, 4)
    await goesOn(t, base, dataDir, { told: ['buffer.segment_damaged'], mayLose: numbers })
  })

  t.test(`a page with messages of ${which} is all zeros`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'stopped')
    const { file } = segments.at(at)!
    const { page, numbers } = leafPage(file)
    zeroPage(file, page)
    await goesOn(t, base, dataDir, {
      told: ['buffer.segment_damaged'],
      mayLose: numbers,
      dropped: numbers.length,
    })
  })

  t.test(`the first page of ${which} is garbage`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'stopped')
    const { file } = segments.at(at)!
    overwrite(file, 0, garbage(4096))
    await goesOn(t, base, dataDir, { told: ['buffer.segment_damaged'] })
  })

  t.test(`the first bytes of ${which} are not those of a database`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'stopped')
    flipBit(segments.at(at)!.file, 0, 3)
    await goesOn(t, base, dataDir, { told: ['buffer.segment_damaged'] })
  })
}

t.test('the first bytes of a segment that is wholly delivered are not those of a database', async (t) => {
  const { dataDir, segments } = copyOf(t, base, 'stopped')
  flipBit(segments[0]!.file, 0, 3)
  await goesOn(t, base, dataDir, { told: ['buffer.segment_damaged'] })
})
