/** Rows are found through an index. Where that is damaged they are still there: nothing may count as lost. */
import { cpSync, readFileSync } from 'node:fs'
import Database from 'better-sqlite3'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { BufferReader, Cursor } from '../../../src/log/buffer.ts'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { openSegmentLog } from '../../../src/log/segments/open-segment-log.ts'
import { until } from '../../support/until.ts'
import { overwrite } from '../../world/damaging.ts'
import { KiB, MiB, message, newPipeId, openAt, specAt, temporaryDirectory } from './open.ts'

const settings = { segmentMaxBytes: 64 * KiB }
const perPipe = 300
const pageBytes = 4096
const indexLeaf = 0x0a
const tableLeaf = 0x0d

interface Scene {
  root: string
  pipes: string[]
}

let base: Scene | null = null
const whole = t

async function makeBase(t: Test): Promise<Scene> {
  const root = temporaryDirectory(t)
  const pipes = [newPipeId(), newPipeId()]
  const { handle, close } = await openAt(t, root, settings)
  for (let n = 0; n < perPipe; n += 1) {
    for (const pipeId of pipes) await handle.appender.append(message(pipeId, `${n} `.padEnd(700, `${n}`)))
  }
  await close()
  return { root, pipes }
}

async function copyOfBase(t: Test): Promise<Scene> {
  base ??= await makeBase(whole)
  const root = temporaryDirectory(t)
  cpSync(base.root, root, { recursive: true })
  return { ...base, root }
}

function fileOf(root: string, index: number): string {
  const { dir } = specAt(root)
  return segmentFile(dir, listSegments(dir).at(index)!)
}

interface IndexCell {
  /** The offset of the type of its pipe's number; that of its seq comes next. */
  typesAt: number
  /** The offset of the last byte of its seq. */
  seqEndsAt: number
}

/** The cells of the index with which rows of a pipe are found, in order: its root is one page. */
function indexCells(file: string): IndexCell[] {
  const db = new Database(file, { readonly: true })
  const root = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'message_by_pipe'").pluck().get()
  db.close()
  const content = readFileSync(file)
  const page = (Number(root) - 1) * pageBytes
  if (content[page] !== indexLeaf) throw new Error(`${file}: its index is more than one page`)
  return Array.from({ length: content.readUInt16BE(page + 3) }, (_, index) => {
    const at = page + content.readUInt16BE(page + 8 + 2 * index)
    return { typesAt: at + 2, seqEndsAt: at + content[at]! }
  })
}

function leafPageWithRows(file: string): number {
  const content = readFileSync(file)
  const isLeaf = (at: number) => content[at] === tableLeaf && content.readUInt16BE(at + 3) > 2
  for (let at = 8 * pageBytes; at < content.length; at += pageBytes) if (isLeaf(at)) return at
  throw new Error(`${file}: no page with rows`)
}

function flip(file: string, at: number, bits: number): void {
  overwrite(file, at, Buffer.of(readFileSync(file)[at]! ^ bits))
}

/** Reads on from a cursor past the lost messages, as a lane does. */
async function followed(reader: BufferReader, pipeId: string) {
  let cursor: Cursor = await reader.earliest(pipeId)
  const found = { messages: 0, lost: 0, damaged: 0, seqs: [] as number[] }
  for (;;) {
    const run = await reader.read(pipeId, cursor.seq, {
      ...{ maxRecords: 7, maxBytes: MiB, afterMark: cursor.mark },
    })
    found.messages += run.messages.length
    found.seqs.push(...run.messages.map(({ seq }) => seq))
    found.damaged += run.damaged.length
    found.lost += run.lost.reduce((sum, { messages }) => sum + messages, 0)
    const next = run.lost[0]?.to ?? run.messages.at(-1)
    if (next === undefined) return found
    cursor = next
  }
}

const flips: [string, (file: string, cells: IndexCell[]) => void][] = [
  ['a seq in its middle', (file, cells) => flip(file, cells[10]!.seqEndsAt, 1)],
  ['a seq that then is another of the pipe', (file, cells) => flip(file, cells[10]!.seqEndsAt, 2)],
  ['a seq that then is far away', (file, cells) => flip(file, cells[10]!.seqEndsAt, 16)],
  ['the first seq', (file, cells) => flip(file, cells[0]!.seqEndsAt, 1)],
  ['the last seq', (file, cells) => flip(file, cells.at(-1)!.seqEndsAt, 1)],
  ['the number of a pipe', (file, cells) => flip(file, cells[10]!.typesAt, 1)],
  ['the number of the pipe of the last row', (file, cells) => flip(file, cells.at(-1)!.typesAt, 1)],
  ['the type of a seq', (file, cells) => flip(file, cells[10]!.typesAt + 1, 1)],
]
for (const [what, damage] of flips) {
  for (const when of ['before the start', 'while it runs']) {
    t.test(`a flipped bit in an index: ${what}, ${when}`, async (t) => {
      const { root, pipes } = await copyOfBase(t)
      const file = fileOf(root, 4)
      const hurt = () => damage(file, indexCells(file))
      if (when === 'before the start') hurt()
      const { reader, handle, close } = await openAt(t, root, settings)
      if (when === 'while it runs') hurt()
      for (const pipeId of pipes) {
        const { messages, lost, damaged, seqs } = await followed(reader, pipeId)
        t.same({ messages, lost, damaged }, { messages: perPipe, lost: 0, damaged: 0 })
        t.same(
          seqs,
          [...new Set(seqs)].sort((a, b) => a - b),
          'in order, each once',
        )
      }
      await until('nothing waits', async () => (await handle.status()).damagedSegments === 0)
      t.equal((await handle.status()).lostMessages, 0)
      await close()
    })
  }
}

t.test('compaction does not leave out what an index lacks', async (t) => {
  for (const cellAt of [10, -1]) {
    const { root, pipes } = await copyOfBase(t)
    const segments = openSegmentLog(specAt(root), pino({ level: 'silent' }))
    const file = fileOf(root, 4)
    flip(file, indexCells(file).at(cellAt)!.seqEndsAt, 1)
    const { firstSeq } = listSegments(specAt(root).dir)[4]!
    const compact = () => {
      const compaction = segments.startCompaction(firstSeq, (pipeId) => (pipeId === pipes[0] ? firstSeq : 0))
      t.teardown(() => compaction.abandon())
      while (!compaction.step());
    }
    t.throws(compact, { code: 'SQLITE_CORRUPT' })
    segments.close(0)
  }
})

t.test('a segment that was salvaged is believed, also after another start', async (t) => {
  const { root, pipes } = await copyOfBase(t)
  const file = fileOf(root, 4)
  // The messages on a page of rows are lost and stay lost.
  overwrite(file, leafPageWithRows(file), Buffer.alloc(pageBytes))
  let expected: unknown = null
  let generation = 0
  for (let start = 1; start <= 3; start += 1) {
    const { reader, close } = await openAt(t, root, settings)
    const found = [await followed(reader, pipes[0]!), await followed(reader, pipes[1]!)]
    const name = listSegments(specAt(root).dir)[4]!
    if (start === 1) {
      expected = found
      generation = name.generation
      t.ok(found[0]!.lost + found[1]!.lost > 0)
    }
    t.same(found, expected)
    t.equal(name.generation, generation)
    await close()
  }
})
