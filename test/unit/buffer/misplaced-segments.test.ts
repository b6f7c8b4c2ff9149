/** Segments under wrong names: who goes where. That nothing is lost on the way is in world/faults. */
import { copyFileSync, cpSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { listSegments, type SegmentName, segmentFile } from '../../../src/log/segments/layout.ts'
import { type NamedSegment, planRenamings } from '../../../src/log/segments/misplaced-segments.ts'
import { until } from '../../support/until.ts'
import { KiB, message, newPipeId, openAt, readAll, specAt, temporaryDirectory, textsOf } from './open.ts'

const small = { segmentMaxBytes: 64 * KiB }
const block = 'x'.repeat(4 * KiB)
const numbersOf = (texts: readonly string[]) => texts.map((text) => text.split(' ')[0])

const base = await makeBase()

const at = (firstSeq: number, generation = 0): SegmentName => ({ firstSeq, generation })
/** Ten messages each. */
const file = (name: SegmentName, first: number | null, last?: number): NamedSegment => ({
  name,
  own: first === null ? null : { firstSeq: first, lastSeq: last ?? first + 9 },
})
const shown = ({ firstSeq, generation }: SegmentName) => `${firstSeq}.${generation}`
const planOf = (found: NamedSegment[], reserved?: SegmentName[], promised?: SegmentName[]) => {
  const { renamings, strays } = planRenamings(found, reserved, promised)
  return [
    ...renamings.map(({ from, to }) => `${shown(from)} to ${shown(to)}`),
    ...strays.map((name) => `${shown(name)} away`),
  ]
}

t.test('who goes where', async (t) => {
  const sound = [file(at(1), 1), file(at(11), 11), file(at(21), 21)]
  t.same(planOf(sound), [])
  t.same(planOf([file(at(1), 11), file(at(11, 2), 1), file(at(21), 21)]), ['1.0 to 11.2', '11.2 to 1.0'])
  t.same(
    planOf([file(at(1), 11), file(at(11), 21), file(at(21), 1)]),
    ['11.0 to 21.0', '1.0 to 11.0', '21.0 to 1.0'],
    'three in a circle',
  )
  t.same(planOf([file(at(1), 1), file(at(5), 11)]), ['5.0 to 11.1'], 'to a free place')
  t.same(planOf([file(at(1), 1), file(at(11), 1)]), [], 'a copy stays for whoever salvages')
  t.same(planOf([file(at(1), 1, 30), file(at(41), 11)]), [], 'so does an older state')
  t.same(
    planOf([file(at(1), 21, 25), file(at(11), 21, 30), file(at(21), null)]),
    ['21.0 to 11.0', '11.0 to 21.0'],
    'of two copies the longer one',
  )
  t.same(
    planOf([file(at(1), null), file(at(11), 1)]),
    ['1.0 to 11.0', '11.0 to 1.0'],
    'one that cannot be read may be the other',
  )
  t.same(planOf([file(at(1), 1), file(at(1, 3), 11), file(at(11), 11)]), ['1.3 away'], 'hides a sound one')
  t.same(planOf([file(at(1), 1), file(at(1, 3), 11)]), ['1.3 to 11.3'])
  t.same(planOf([file(at(1), null), file(at(1, 1), 1)]), [], 'what a salvage leaves')
  t.same(planOf([file(at(1), 11), file(at(1, 1), 11), file(at(11), null)]), ['1.0 to 11.0', '11.0 away'])
})

t.test('interrupted, it is planned the same', async (t) => {
  t.same(planOf([file(at(11), 1)], [at(11)]), ['11.0 to 1.1'], 'the other one is on its way here')
  t.same(planOf([file(at(1), 11), file(at(11, 2), 1)], [], [at(1)]), ['1.0 to 11.2', '11.2 to 1.0'])
  t.same(planOf([file(at(11), 1)], [], [at(1, 0)]), ['11.0 to 1.0'], 'its WAL is there already')
  t.same(planOf([file(at(21), 11)], [at(11)]), [], 'a copy of one that is on its way')
})

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
  const texts = textsOf(await readAll(reader, pipeId))
  const newest = segmentFile(dir, listSegments(dir).at(-1)!)
  // The latest messages are in the WAL.
  for (const suffix of ['', '-wal']) copyFileSync(newest + suffix, path.join(root, `unsealed${suffix}`))
  await close()
  return { root, pipeId, texts }
}

/** A copy of it, for one test. */
function manySegments(t: Test) {
  const root = temporaryDirectory(t)
  cpSync(base.root, root, { recursive: true })
  const { dir } = specAt(root)
  const files = listSegments(dir).map((name) => segmentFile(dir, name))
  return { ...base, root, dir, files, newest: files.at(-1)!, unsealed: path.join(root, 'unsealed') }
}

function exchange(one: string, other: string): void {
  renameSync(one, `${one}-`)
  renameSync(other, one)
  renameSync(`${one}-`, other)
}

async function holdsAll(t: Test, { root, dir, pipeId, texts }: ReturnType<typeof manySegments>) {
  const { reader, handle } = await openAt(t, root, small)
  t.same(numbersOf(textsOf(await readAll(reader, pipeId))), numbersOf(texts))
  await handle.appender.append(message(pipeId, 'goes on'))
  t.equal((await readAll(reader, pipeId)).length, texts.length + 1)
  t.same(
    readdirSync(dir).filter((name) => name.includes('renaming')),
    [],
  )
  t.match(await handle.status(), { damagedSegments: 0, missingSegments: 0, lostMessages: 0 })
}

t.test('two sealed segments, and the newest with an old one, are exchanged', async (t) => {
  const buffer = manySegments(t)
  exchange(buffer.files[1]!, buffer.files[4]!)
  exchange(buffer.files[0]!, buffer.newest)
  await holdsAll(t, buffer)
})

for (const [what, goesAlong] of [
  ['stays where it was', false],
  ['goes along', true],
] as const) {
  t.test(`the newest is exchanged with an old one, and its WAL ${what}`, async (t) => {
    const buffer = manySegments(t)
    const { newest, unsealed, files } = buffer
    for (const suffix of ['', '-wal']) renameSync(unsealed + suffix, newest + suffix)
    exchange(files[2]!, newest)
    if (goesAlong) renameSync(`${newest}-wal`, `${files[2]}-wal`)
    await holdsAll(t, buffer)
  })
}

type Paths = { one: string; other: string; toOne: string; toOther: string }
/** The WAL of the newest is under its own name, `other`. */
const interruptions: [string, (paths: Paths) => void][] = [
  ['the first is on its way', ({ other, toOne }) => renameSync(other, toOne)],
  ['the second is', ({ one, toOther }) => renameSync(one, toOther)],
  [
    'both are',
    ({ one, other, toOne, toOther }) => {
      renameSync(other, toOne)
      renameSync(one, toOther)
    },
  ],
  [
    'the first is there',
    ({ one, other, toOther }) => {
      renameSync(one, toOther)
      renameSync(other, one)
    },
  ],
  [
    'a WAL is on its way',
    ({ one, other, toOther }) => {
      renameSync(`${other}-wal`, `${one}-wal`)
      renameSync(`${one}-wal`, `${toOther}-wal`)
    },
  ],
]
for (const [where, interrupt] of interruptions) {
  t.test(`two are exchanged, and the start that renames them is killed: ${where}`, async (t) => {
    const buffer = manySegments(t)
    const { newest: other, unsealed, files } = buffer
    const one = files[2]!
    for (const suffix of ['', '-wal']) renameSync(unsealed + suffix, other + suffix)
    exchange(one, other)
    interrupt({ one, other, toOne: `${one}.renaming`, toOther: `${other}.renaming` })
    await holdsAll(t, buffer)
  })
}

t.test('of two that were exchanged one is damaged: it is salvaged in its own place', async (t) => {
  const buffer = manySegments(t)
  const { root, pipeId, texts, files } = buffer
  const damaged = readFileSync(files[3]!)
  damaged.fill(0, 0, 2 * 4096)
  writeFileSync(files[3]!, damaged)
  exchange(files[1]!, files[3]!)
  const { reader } = await openAt(t, root, small)
  t.same(numbersOf(textsOf(await readAll(reader, pipeId))), numbersOf(texts))
})

t.test('a segment comes back to a place that became free', async (t) => {
  const buffer = manySegments(t)
  const { dir, files } = buffer
  renameSync(files[2]!, segmentFile(dir, { firstSeq: 5, generation: 0 }))
  await holdsAll(t, buffer)
})
