/** Damage costs what was damaged and nothing else: whatever happens to a segment's file, everything else goes on. */
import {
  closeSync,
  cpSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { until } from '../../support/until.ts'
import { KiB, message, newPipeId, openAt, readAll, specAt, temporaryDirectory, textsOf } from './open.ts'

const pageBytes = 4096
const settings = { segmentMaxBytes: 64 * KiB }
const perPipe = 300

interface Scene {
  root: string
  pipes: [string, string]
  /** Per pipe, by seq. */
  texts: Map<number, string>[]
}

let base: Scene | null = null
/** The test of the whole file, whose directory outlives each of its tests. */
const whole = t

/** Two pipes over some ten segments, closed. */
async function makeBase(t: Test): Promise<Scene> {
  const root = temporaryDirectory(t)
  const pipes: [string, string] = [newPipeId(), newPipeId()]
  const { handle, close } = await openAt(t, root, settings)
  const texts: Scene['texts'] = [new Map(), new Map()]
  for (let n = 0; n < perPipe; n += 1) {
    for (const [index, pipeId] of pipes.entries()) {
      const text = `${n} of ${index} `.padEnd(n % 25 === 0 ? 6_000 : 700, `${n}`)
      const { seq } = await handle.appender.append(message(pipeId, text))
      texts[index]!.set(seq, text)
    }
  }
  await close()
  return { root, pipes, texts }
}

async function copyOfBase(t: Test): Promise<Scene> {
  base ??= await makeBase(whole)
  const root = temporaryDirectory(t)
  cpSync(base.root, root, { recursive: true })
  return { ...base, root }
}

const filesIn = (root: string) => {
  const { dir } = specAt(root)
  return listSegments(dir).map((name) => segmentFile(dir, name))
}

/** Everything but what may be lost is there, in order and unchanged; more is accepted, also after another start. */
async function check(
  t: Test,
  { root, pipes, texts }: Scene,
  { atMost }: { atMost: number },
): Promise<number> {
  const opened = await openAt(t, root, settings)
  let lost = 0
  for (const [index, pipeId] of pipes.entries()) {
    const found = await readAll(opened.reader, pipeId)
    for (const { seq, body } of found) {
      if (texts[index]!.get(seq) !== body.toString()) t.fail(`message ${seq} was not written`)
    }
    const seqs = found.map(({ seq }) => seq)
    t.same(
      seqs,
      [...new Set(seqs)].sort((a, b) => a - b),
      'in order, each once',
    )
    lost += texts[index]!.size - found.length
  }
  t.ok(lost <= atMost, `${lost} lost, ${atMost} may be`)
  const newest = Math.max(...texts.flatMap((of) => [...of.keys()]))
  const next = await opened.handle.appender.append(message(pipes[0], 'next'))
  t.ok(next.seq > newest || lost > 0)
  const after = await readAll(opened.reader, pipes[0], next.seq - 1)
  t.same(textsOf(after), ['next'], 'what is accepted afterwards is there')
  await until('nothing waits', async () => (await opened.handle.status()).damagedSegments === 0)
  await opened.close()
  const again = await openAt(t, root, settings)
  t.same(textsOf(await readAll(again.reader, pipes[0], next.seq - 1)), ['next'])
  t.equal((await again.handle.status()).damagedSegments, 0)
  await again.close()
  return lost
}

function change(file: string, at: number, bytes: Buffer): void {
  const fd = openSync(file, 'r+')
  writeSync(fd, bytes, 0, bytes.length, at)
  closeSync(fd)
}

const zeros = Buffer.alloc(pageBytes)
const places = {
  'the oldest': 0,
  'a middle one': 4,
  'the newest sealed one': -2,
  'the one being written': -1,
}
const quarantined = (root: string) => readdirSync(path.join(specAt(root).quarantineDir, 'segments'))

for (const [place, index] of Object.entries(places)) {
  const damages: Record<string, { hurt(file: string): void; atMost: number }> = {
    'its first page zeroed': { hurt: (file) => change(file, 0, zeros), atMost: 0 },
    'its header garbage': { hurt: (file) => change(file, 0, Buffer.from('garbage '.repeat(12))), atMost: 0 },
    'a page in its middle zeroed': { hurt: (file) => change(file, 5 * pageBytes, zeros), atMost: 6 },
    'half of it cut off': { hurt: (file) => truncateSync(file, readFileSync(file).length / 2), atMost: 60 },
    'nothing left of it': { hurt: (file) => truncateSync(file, 0), atMost: 90 },
    'a text in its place': { hurt: (file) => writeFileSync(file, 'a text\n'.repeat(3_000)), atMost: 90 },
  }
  for (const [damage, { hurt, atMost }] of Object.entries(damages)) {
    t.test(`${place} has ${damage}`, async (t) => {
      const scene = await copyOfBase(t)
      const file = filesIn(scene.root).at(index)!
      hurt(file)
      const bytes = readFileSync(file)
      await check(t, scene, { atMost })
      // An empty file was never anything, and a page that nothing depends on is not noticed.
      if (bytes.length === 0 || (existsSync(file) && readFileSync(file).equals(bytes))) return
      t.ok(
        readFileSync(path.join(specAt(scene.root).quarantineDir, 'segments', path.basename(file))).equals(
          bytes,
        ),
        'the damaged file is kept as it was',
      )
    })
  }
}

t.test('a segment that is deleted costs its own messages', async (t) => {
  const scene = await copyOfBase(t)
  rmSync(filesIn(scene.root)[4]!)
  const { handle, close } = await openAt(t, scene.root, settings)
  t.equal((await handle.status()).missingSegments, 1)
  t.ok((await handle.status()).lostMessages > 0)
  await close()
  await check(t, scene, { atMost: 90 })
})

t.test('damage that comes while it runs is found by a reader, and salvaged', async (t) => {
  const scene = await copyOfBase(t)
  const { reader, handle, close } = await openAt(t, scene.root, settings)
  change(filesIn(scene.root)[4]!, 0, zeros)
  change(filesIn(scene.root).at(-1)!, 0, zeros)
  const found = await readAll(reader, scene.pipes[0])
  t.ok(found.length >= perPipe - 10)
  await handle.appender.append(message(scene.pipes[0], 'next'))
  t.equal(textsOf(await readAll(reader, scene.pipes[0])).at(-1), 'next')
  await close()
})

t.test('a bit flipped where no lane reads any more is found by the scrub', async (t) => {
  const scene = await copyOfBase(t)
  const file = filesIn(scene.root)[2]!
  const at = readFileSync(file).indexOf('of 0 ', 8 * pageBytes)
  change(file, at, Buffer.from('oF 0 '))
  const { handle, reader, close } = await openAt(t, scene.root, { ...settings, scrubHours: 0.5 / 3600 })
  await until('it is counted', async () => (await handle.status()).lostMessages === 1)
  t.equal((await handle.status()).damagedSegments, 0, 'the rest is saved')
  t.equal((await readAll(reader, scene.pipes[0])).length, perPipe - 1)
  t.ok(quarantined(scene.root).includes(path.basename(file)))
  await close()
})
