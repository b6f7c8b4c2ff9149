/** A damaged segment on a full disk: it waits for space, everything else goes on, and what can be read of it is saved then. */
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { listSegments, segmentFile, smallPageBytes } from '../../../src/log/segments/layout.ts'
import { Salvage } from '../../../src/log/segments/salvage.ts'
import { createSegment, newIdentity } from '../../../src/log/segments/segment-file.ts'
import { isDiskFull } from '../../../src/log/segments/sqlite-errors.ts'
import { fillDisk, freeBytes, smallDisk } from '../../support/small-disk.ts'
import { until } from '../../support/until.ts'
import { KiB, MiB, message, newPipeId, openAt, readAll, specAt, textsOf } from './open.ts'

const pageBytes = 4096
const perPipe = 150

t.test('a damaged segment on a full disk waits for space, and nothing else waits for it', async (t) => {
  const root = smallDisk(t, 16 * MiB)
  const { dir, quarantineDir } = specAt(root)
  const { handle, reader } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
  const texts = Array.from({ length: perPipe }, (_, n) => `${n} `.padEnd(700, 'x'))
  const [older, newer] = [newPipeId(), newPipeId()]
  for (const pipeId of [older, newer]) {
    for (const text of texts) await handle.appender.append(message(pipeId, text))
  }
  // Everything is sealed that can be: only then is a file of its own what its pages say.
  await until('the segments are sealed', () => !existsSync(`${segmentFile(dir, listSegments(dir)[0]!)}-wal`))

  const fill = path.join(root, 'fill')
  fillDisk(fill)
  await until('the ballast is given up', () => !existsSync(path.join(dir, 'ballast')))
  fillDisk(fill)
  t.equal(freeBytes(root), 0)
  const file = segmentFile(dir, listSegments(dir)[0]!)
  zeroPages(file, [1, 11])
  const bytes = readFileSync(file)

  let isRead = false
  const waiting = readAll(reader, older).finally(() => {
    isRead = true
  })
  await until('it waits', async () => (await handle.status()).damagedSegments === 1)
  const next = listSegments(dir)[1]!.firstSeq
  t.same(textsOf(await readAll(reader, newer, next - 1)), texts, 'the other pipe is read')
  t.same(textsOf(await readAll(reader, older, next - 1)), texts.slice(next - 1), 'and the other segments')
  t.equal((await handle.status()).damagedSegments, 1)
  t.equal(isRead, false, 'who needs the damaged segment waits')
  t.ok(readFileSync(file).equals(bytes), 'which stays as it is')

  rmSync(fill)
  const found = textsOf(await waiting)
  const lost = perPipe - found.length
  t.ok(lost > 0 && lost <= 6, `${lost} messages are lost`)
  t.same(
    found,
    texts.filter((text) => found.includes(text)),
    'all others are read in order, each once',
  )
  await until('the damage is counted', async () => {
    const { damagedSegments, lostMessages } = await handle.status()
    return damagedSegments === 0 && lostMessages === lost
  })
  t.ok(readFileSync(path.join(quarantineDir, 'segments', path.basename(file))).equals(bytes))
  await until('it takes messages', async () => (await handle.status()).unavailableReason === null)
  const { seq } = await handle.appender.append(message(older, 'after'))
  t.same(textsOf(await readAll(reader, older, seq - 1)), ['after'])
})

t.test('a salvage that cannot begin leaves nothing', (t) => {
  const dir = smallDisk(t, 2 * MiB)
  const identity = newIdentity(null, 1, null)
  createSegment(dir, { pageBytes: smallPageBytes, identity, begunClockMs: 0, bases: [], holes: [] })
  fillDisk(path.join(dir, 'fill'))
  const names = readdirSync(dir)
  const begin = () =>
    new Salvage({
      ...{ dir, quarantineDir: path.join(dir, 'quarantine'), source: { firstSeq: 1, generation: 0 } },
      ...{ lastSeq: null, knownSeq: 0, begunClockMs: 0, lastClockMs: 0, identity: null },
      ...{ before: new Map(), after: null },
    })
  for (let attempt = 0; attempt < 3; attempt += 1) {
    try {
      begin()
      t.fail('there is no space for it')
    } catch (error) {
      t.ok(isDiskFull(error))
    }
  }
  t.same(readdirSync(dir), names)
  t.same(openFilesIn(dir), [], 'and no file is left open, which is tried again every two seconds')
  t.end()
})

function openFilesIn(dir: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const file = readlinkSync(`/proc/self/fd/${fd}`)
      return file.startsWith(dir) ? [file] : []
    } catch {
      // The listing itself can fail.
      return []
    }
  })
}

/** From 1. */
function zeroPages(file: string, pages: readonly number[]): void {
  const fd = openSync(file, 'r+')
  for (const page of pages) writeSync(fd, Buffer.alloc(pageBytes), 0, pageBytes, (page - 1) * pageBytes)
  closeSync(fd)
}
