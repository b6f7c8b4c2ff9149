/** Sealed segments have no side files, whoever was reading them; the segment being written has its own. */
import { existsSync, readdirSync } from 'node:fs'
import Database from 'better-sqlite3'
import t from 'tap'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { until } from '../../support/until.ts'
import { KiB, message, newPipeId, openAt, readAll, specAt, temporaryDirectory, textsOf } from './open.ts'

const small = { segmentMaxBytes: 64 * KiB }
const block = 'x'.repeat(4 * KiB)

/** The side files of all segments but the newest. */
function sideFiles(dir: string): string[] {
  const newest = segmentFile(dir, listSegments(dir).at(-1)!)
  return readdirSync(dir).filter(
    (name) => /^\d.*-(wal|shm|journal)$/.test(name) && !newest.endsWith(name.slice(0, 23)),
  )
}

t.test(
  'a segment that is sealed while it is read loses its side files once its readers notice',
  async (t) => {
    const root = temporaryDirectory(t)
    const { dir } = specAt(root)
    const pipeId = newPipeId()
    const { handle, reader } = await openAt(t, root, small)
    const given: string[] = []
    for (let n = 0; n < 60; n += 1) {
      given.push(`${n} ${block}`)
      await handle.appender.append(message(pipeId, given[n]!))
      await reader.head(pipeId)
    }
    t.same(textsOf(await readAll(reader, pipeId, 0, 3)), given)
    await until('all sealed segments are without side files', () => sideFiles(dir).length === 0)
    t.same(textsOf(await readAll(reader, pipeId, 0, 3)), given)
    t.same(sideFiles(dir), [], 'reading makes none')
  },
)

t.test(
  'a reader outside of the process keeps a segment from being sealed, and the next start seals it',
  async (t) => {
    const root = temporaryDirectory(t)
    const { dir } = specAt(root)
    const pipeId = newPipeId()
    const first = await openAt(t, root, small)
    await first.handle.appender.append(message(pipeId, block))
    const other = new Database(segmentFile(dir, { firstSeq: 1, generation: 0 }), { readonly: true })
    other.prepare('SELECT count(*) FROM message').get()
    for (let n = 1; n < 20; n += 1) await first.handle.appender.append(message(pipeId, block))
    await first.close()
    t.ok(existsSync(`${segmentFile(dir, { firstSeq: 1, generation: 0 })}-shm`))
    other.close()
    const { reader } = await openAt(t, root, small)
    t.same(sideFiles(dir), [])
    t.equal((await readAll(reader, pipeId)).length, 20)
  },
)

t.test('a new epoch begins a new segment, and its seqs far above the old ones', async (t) => {
  const root = temporaryDirectory(t)
  const pipeId = newPipeId()
  const dataDirId = '018f0000-0000-4000-8000-00000000000d'
  const first = await openAt(t, root, { identity: { dataDirId, epoch: 1 } })
  for (const text of ['a', 'b']) await first.handle.appender.append(message(pipeId, text))
  await first.close()
  const next = { identity: { dataDirId, epoch: 2 }, nextSeqAtLeast: 1_000 }
  for (const seq of [1_000, 1_001]) {
    const { handle, reader, close } = await openAt(t, root, next)
    t.equal((await handle.status()).missingAcknowledged, 0, 'nobody was given a seq in between')
    t.equal((await handle.appender.append(message(pipeId, `${seq}`))).seq, seq)
    t.equal((await readAll(reader, pipeId)).length, seq - 997)
    t.equal((await handle.appended()).get(pipeId)?.messages, seq - 997)
    await close()
  }
})

t.test(
  'what someone has seen is missing when it is not there, and its seqs are not given out again',
  async (t) => {
    const root = temporaryDirectory(t)
    const pipeId = newPipeId()
    const first = await openAt(t, root, { knownSeq: 0 })
    for (const text of ['a', 'b']) await first.handle.appender.append(message(pipeId, text))
    await first.close()
    const { handle } = await openAt(t, root, { knownSeq: 7 })
    t.equal((await handle.status()).missingAcknowledged, 5)
    t.equal((await handle.appender.append(message(pipeId, 'c'))).seq, 8)
  },
)
