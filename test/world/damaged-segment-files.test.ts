/** Whole segments are cut, replaced, gone or exchanged. Their messages are lost, and no others. */
import { cpSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { segmentFile } from '../../src/log/segments/layout.ts'
import { runCli } from '../support/cli.ts'
import { copyOf, goesOn, makeBase } from './damaged-directory.ts'
import { cut } from './damaging.ts'

const base = await makeBase(t)

t.test('a segment is cut to half of its size', async (t) => {
  const { dataDir, segments } = copyOf(t, base, 'stopped')
  const { file, numbers } = segments[5]!
  cut(file, 0.5)
  await goesOn(t, base, dataDir, { told: ['buffer.segment_damaged'], mayLose: numbers })
})

const replacements: [string, (file: string) => void][] = [
  ['cut to nothing', (file) => cut(file, 0)],
  ['a text', (file) => writeFileSync(file, 'This is no database.\n'.repeat(1000))],
  ['the database of another program', (file) => writeForeign(file)],
]
for (const [what, replace] of replacements) {
  t.test(`a segment is ${what}`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'stopped')
    const { file, numbers } = segments[5]!
    replace(file)
    await goesOn(t, base, dataDir, {
      told: ['buffer.segment_missing'],
      mayLose: numbers,
      dropped: numbers.length,
    })
  })
}

t.test('there is an empty file with the name of a seq within a segment', async (t) => {
  const { dataDir, buffer, segments } = copyOf(t, base, 'stopped')
  const { firstSeq } = segments[5]!
  writeFileSync(segmentFile(buffer, { firstSeq: firstSeq + 3, generation: 0 }), '')
  await goesOn(t, base, dataDir, { told: ['buffer.segment_set_aside'] })
})

t.test('there is an empty file with the name of a segment to come', async (t) => {
  const { dataDir, buffer, segments } = copyOf(t, base, 'stopped')
  const { firstSeq } = segments.at(-1)!
  writeFileSync(segmentFile(buffer, { firstSeq: firstSeq + 1000, generation: 0 }), '')
  await goesOn(t, base, dataDir, { told: [] })
})

for (const [which, at] of [
  ['oldest', 0],
  ['sixth', 5],
  ['newest sealed', -2],
] as const) {
  t.test(`the ${which} segment is deleted`, async (t) => {
    const { dataDir, segments } = copyOf(t, base, 'stopped')
    const { file, numbers } = segments.at(at)!
    for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
    await goesOn(t, base, dataDir, {
      told: ['buffer.segment_missing'],
      mayLose: numbers,
      dropped: numbers.length,
    })
  })
}

t.test(
  'two sealed segments have changed places: both are set aside and counted, and can be put back',
  async (t) => {
    const { dataDir, buffer, segments } = copyOf(t, base, 'stopped')
    const [one, other] = [segments[4]!, segments[7]!]
    const between = path.join(buffer, 'between')
    renameSync(one.file, between)
    renameSync(other.file, one.file)
    renameSync(between, other.file)
    const numbers = [...one.numbers, ...other.numbers]
    await goesOn(t, base, dataDir, {
      told: ['buffer.segment_set_aside', 'buffer.segment_missing'],
      mayLose: numbers,
      dropped: numbers.length,
    })
    const aside = path.join(dataDir, 'quarantine/segments')
    renameSync(path.join(aside, path.basename(one.file)), other.file)
    renameSync(path.join(aside, path.basename(other.file)), one.file)
    t.match((await runCli(['verify', '--data-dir', dataDir])).code, 0)
  },
)

t.test('a segment is overwritten by another', async (t) => {
  const { dataDir, segments } = copyOf(t, base, 'stopped')
  const [one, other] = [segments[4]!, segments[7]!]
  cpSync(other.file, one.file)
  await goesOn(t, base, dataDir, {
    told: ['buffer.segment_missing'],
    mayLose: one.numbers,
    dropped: one.numbers.length,
  })
})

function writeForeign(file: string): void {
  rmSync(file)
  const db = new Database(file)
  db.exec("CREATE TABLE friend (name TEXT); INSERT INTO friend VALUES ('somebody')")
  db.close()
}
