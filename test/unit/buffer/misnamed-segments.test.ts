/** Segments under the name of another: they go to the quarantine, count as missing, and can be brought back by hand. */
import { copyFileSync, cpSync, linkSync, mkdirSync, readdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { until } from '../../support/until.ts'
import { KiB, message, newPipeId, openAt, readAll, specAt, temporaryDirectory, textsOf } from './open.ts'

const small = { segmentMaxBytes: 64 * KiB }
const block = 'x'.repeat(4 * KiB)
const numbersOf = (texts: readonly string[]) => texts.map((text) => Number(text.split(' ')[0]))

const base = await makeBase()

/** A buffer of many segments, closed, and beside it its newest one as a kill leaves it; all its messages. */
async function makeBase() {
  const root = temporaryDirectory(t)
  const { handle, reader, close } = await openAt(t, root, small)
  const pipeId = newPipeId()
  for (let n = 0; n < 90; n += 9) {
    const nine = Array.from({ length: 9 }, (_, index) => message(pipeId, `${n + index} ${block}`))
    await Promise.all(nine.map((one) => handle.appender.append(one)))
  }
  const { dir } = specAt(root)
  // Nine fill a segment. The last message is alone in its own, and no other one is begun while that is copied.
  await until('the last segment is begun', () => listSegments(dir).at(-1)!.firstSeq > 90)
  await handle.appender.append(message(pipeId, '90'))
  const numbers = numbersOf(textsOf(await readAll(reader, pipeId)))
  const newest = segmentFile(dir, listSegments(dir).at(-1)!)
  // The last append is in the WAL.
  for (const suffix of ['', '-wal']) copyFileSync(newest + suffix, path.join(root, `unsealed${suffix}`))
  await close()
  return { root, pipeId, numbers }
}

/** A copy of it, for one test. */
function manySegments(t: Test) {
  const root = temporaryDirectory(t)
  cpSync(base.root, root, { recursive: true })
  const { dir, quarantineDir } = specAt(root)
  const files = listSegments(dir).map((name) => segmentFile(dir, name))
  const aside = path.join(quarantineDir, 'segments')
  return { ...base, root, dir, aside, files, newest: files.at(-1)!, unsealed: path.join(root, 'unsealed') }
}

function exchange(one: string, other: string): void {
  renameSync(one, `${one}-`)
  renameSync(other, one)
  renameSync(`${one}-`, other)
}

/** Opens it: messages of the segments at `lost` are missing and counted, all others are there, and it accepts more. */
async function lacks(
  t: Test,
  { root, pipeId, numbers }: ReturnType<typeof manySegments>,
  lost: readonly number[],
): Promise<void> {
  const { reader, handle, close } = await openAt(t, root, small)
  const rest = numbers.filter((number) => !lost.includes(Math.floor(number / 9)))
  t.same(numbersOf(textsOf(await readAll(reader, pipeId))), rest)
  await handle.appender.append(message(pipeId, '1000 more'))
  t.same(numbersOf(textsOf(await readAll(reader, pipeId))), [...rest, 1000])
  const { lostMessages, damagedSegments, missingAcknowledged } = await handle.status()
  t.equal(lostMessages + missingAcknowledged, numbers.length - rest.length)
  t.equal(damagedSegments, 0)
  await close()
}

t.test('two sealed segments are exchanged: set aside, and brought back by hand', async (t) => {
  const buffer = manySegments(t)
  const [one, other] = [buffer.files[1]!, buffer.files[4]!]
  exchange(one, other)
  await lacks(t, buffer, [1, 4])
  const inQuarantine = (file: string) => path.join(buffer.aside, path.basename(file))
  t.same(readdirSync(buffer.aside).sort(), [one, other].map((file) => path.basename(file)).sort())
  renameSync(inQuarantine(one), other)
  renameSync(inQuarantine(other), one)
  await lacks(t, { ...buffer, numbers: [...buffer.numbers, 1000] }, [])
})

t.test('the start that sets one aside is killed before it removes the first name', async (t) => {
  const buffer = manySegments(t)
  const away = segmentFile(buffer.dir, { firstSeq: 5, generation: 0 })
  renameSync(buffer.files[2]!, away)
  mkdirSync(buffer.aside, { recursive: true })
  linkSync(away, path.join(buffer.aside, path.basename(away)))
  await lacks(t, buffer, [2])
  t.same(readdirSync(buffer.aside), [path.basename(away)])
})

t.test('one that would hide a sound segment does not', async (t) => {
  const buffer = manySegments(t)
  copyFileSync(buffer.files[4]!, buffer.files[2]!.replace(/\.db$/, '.3.db'))
  await lacks(t, buffer, [])
})

for (const [where, goesAlong] of [
  ['stays where it was', false],
  ['goes along', true],
] as const) {
  t.test(`the newest is exchanged with an old one, and its WAL ${where}`, async (t) => {
    const buffer = manySegments(t)
    const { newest, unsealed, files, aside } = buffer
    for (const suffix of ['', '-wal']) renameSync(unsealed + suffix, newest + suffix)
    exchange(files[2]!, newest)
    if (goesAlong) renameSync(`${newest}-wal`, `${files[2]}-wal`)
    await lacks(t, buffer, [2, 10])
    const wal = `${goesAlong ? files[2] : newest}-wal`
    t.same(readdirSync(aside).sort(), [files[2]!, newest, wal].map((file) => path.basename(file)).sort())
  })
}

t.test('a segment of another data directory under a third name is set aside', async (t) => {
  const buffer = manySegments(t)
  const identity = { dataDirId: '00000000-0000-4000-8000-000000000001', epoch: 1 }
  const other = temporaryDirectory(t)
  const foreign = await openAt(t, other, { identity })
  await foreign.handle.appender.append(message(newPipeId(), 'foreign'))
  await foreign.close()
  const file = segmentFile(specAt(other).dir, listSegments(specAt(other).dir)[0]!)
  copyFileSync(file, segmentFile(buffer.dir, { firstSeq: 15, generation: 0 }))
  await lacks(t, buffer, [])
})

t.test('where every file belongs to another data directory, nothing is moved', async (t) => {
  const root = temporaryDirectory(t)
  const identity = { dataDirId: '00000000-0000-4000-8000-000000000001', epoch: 1 }
  const { handle, close } = await openAt(t, root, { identity })
  await handle.appender.append(message(newPipeId(), 'one'))
  await close()
  const { dir } = specAt(root)
  const misnamed = segmentFile(dir, { firstSeq: 7, generation: 0 })
  copyFileSync(segmentFile(dir, listSegments(dir)[0]!), misnamed)
  const owner = { dataDirId: '00000000-0000-4000-8000-000000000002', epoch: 1 }
  await t.rejects(openAt(t, root, { identity: owner }), /the buffer of another data directory/)
  t.ok(readdirSync(dir).includes(path.basename(misnamed)))
})
