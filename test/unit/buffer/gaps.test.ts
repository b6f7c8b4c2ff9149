/** A segment that is missing costs the messages that were in it, and is told; what is older stays within reach. */
import { rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import type { BufferReader, Cursor, LostMessages } from '../../../src/log/buffer.ts'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { until } from '../../support/until.ts'
import {
  countOf,
  KiB,
  MiB,
  message,
  newPipeId,
  openAt,
  specAt,
  temporaryDirectory,
  watermark,
} from './open.ts'

const small = { segmentMaxBytes: 64 * KiB }
const block = 'x'.repeat(4 * KiB)

interface Scene {
  root: string
  pipeId: string
  other: string
  /** The seqs of the pipe. */
  seqs: number[]
}

/** Two pipes over many segments, closed again. */
async function manySegments(t: Test): Promise<Scene> {
  const root = temporaryDirectory(t)
  const buffer = await openAt(t, root, small)
  const [pipeId, other] = [newPipeId(), newPipeId()]
  const seqs: number[] = []
  for (let n = 0; n < 200; n += 1) {
    seqs.push((await buffer.handle.appender.append(message(pipeId, block))).seq)
    if (n === 10) await buffer.handle.appender.append(message(other, 'one of another pipe'))
  }
  await buffer.close()
  return { root, pipeId, other, seqs }
}

/** Reads on from a cursor with its mark past the lost messages, as a lane does. */
async function followed(
  reader: BufferReader,
  pipeId: string,
): Promise<{ seqs: number[]; lost: LostMessages[] }> {
  let cursor: Cursor = await reader.earliest(pipeId)
  const seqs: number[] = []
  const lost: LostMessages[] = []
  for (;;) {
    const limits = { maxRecords: 7, maxBytes: MiB, afterMark: cursor.mark }
    const run = await reader.read(pipeId, cursor.seq, limits)
    seqs.push(...run.messages.map(({ seq }) => seq))
    lost.push(...run.lost)
    const next = run.lost[0]?.to ?? run.messages.at(-1)
    if (next === undefined) return { seqs, lost }
    cursor = next
  }
}

const places = [
  ['the first', 0],
  ['one in the middle', 5],
  ['the newest sealed one', -2],
] as const

for (const [what, index] of places) {
  t.test(`${what} is deleted: its own messages alone are missing`, async (t) => {
    const { root, pipeId, other, seqs } = await manySegments(t)
    const names = listSegments(specAt(root).dir)
    const at = index < 0 ? names.length + index : index
    const [firstSeq, nextSeq] = [names[at]!.firstSeq, names[at + 1]!.firstSeq]
    rmSync(segmentFile(specAt(root).dir, names[at]!))
    const { reader, handle } = await openAt(t, root, small)
    const isIn = (seq: number) => seq >= firstSeq && seq < nextSeq
    const kept = seqs.filter((seq) => !isIn(seq))
    const found = await followed(reader, pipeId)
    t.same(found.seqs, kept)
    if (index !== 0) {
      t.match(found.lost, [{ firstSeq, to: { seq: nextSeq - 1 }, messages: seqs.filter(isIn).length }])
      t.equal(found.lost.length, 1)
    }
    t.equal(
      (await reader.earliest(pipeId)).seq,
      index === 0 ? nextSeq - 1 : 0,
      'what is older can be rewound to',
    )
    t.equal((await countOf(reader, pipeId)).messages, seqs.length, 'totals still count what is lost')
    if (index === 5)
      t.same(await followed(reader, other), { seqs: [12], lost: [] }, 'another pipe misses nothing')
    const { seq } = await handle.appender.append(message(pipeId, 'goes on'))
    t.same((await followed(reader, pipeId)).seqs, [...kept, seq])
  })
}

t.test('a read without a mark continues at the next message, whatever is missing before it', async (t) => {
  const { root, pipeId, seqs } = await manySegments(t)
  const names = listSegments(specAt(root).dir)
  const [firstSeq, nextSeq] = [names[5]!.firstSeq, names[6]!.firstSeq]
  const cursor = seqs.filter((seq) => seq < firstSeq).at(-3)!
  const inside = seqs.filter((seq) => seq >= firstSeq && seq < nextSeq)
  for (const missing of [3, inside.length]) {
    const next = inside[missing] ?? nextSeq
    removeRows(root, cursor, next)
    const { reader, close } = await openAt(t, root, small)
    const { mark } = await reader.cursorAt(pipeId, cursor)
    const one = { maxRecords: 1, maxBytes: 1 }
    const marked = await reader.read(pipeId, cursor, { ...one, afterMark: mark })
    t.match(marked, { messages: [], lost: [{ firstSeq: cursor + 1, messages: 2 }] })
    t.match(await reader.read(pipeId, cursor, one), { messages: [{ seq: next }], lost: [], more: true })
    await close()
  }
})

/** The disk loses the rows between these seqs. */
function removeRows(root: string, afterSeq: number, beforeSeq: number): void {
  for (const name of listSegments(specAt(root).dir)) {
    const db = new Database(segmentFile(specAt(root).dir, name))
    // Otherwise a salvage finds them in the free parts of their pages.
    db.pragma('secure_delete = ON')
    db.prepare('DELETE FROM message WHERE seq > ? AND seq < ?').run(afterSeq, beforeSeq)
    db.close()
  }
}

t.test(
  'what retention drops from the middle is a hole: what is older counts as dropped with it',
  async (t) => {
    const root = temporaryDirectory(t)
    const buffer = await openAt(t, root, { ...small, deliveredMaxBytes: 0 })
    const { handle, reader, feed } = buffer
    const [pipeId, standing] = [newPipeId(), newPipeId()]
    const seqs: number[] = []
    await handle.appender.append(message(standing, 'never delivered'))
    for (let n = 0; n < 100; n += 1) seqs.push((await handle.appender.append(message(pipeId, block))).seq)
    const before = listSegments(specAt(root).dir).length
    feed.reportLowWatermarks([watermark(pipeId, seqs[49]!), watermark(standing, 0)])
    await until('segments are dropped', () => listSegments(specAt(root).dir).length < before - 2)
    await until('the reader knows', async () => (await reader.earliest(pipeId)).seq > seqs[30]!)
    const earliest = await reader.earliest(pipeId)
    const found = await followed(reader, pipeId)
    t.same(found, { seqs: seqs.filter((seq) => seq > earliest.seq), lost: [] })
    t.equal((await followed(reader, standing)).seqs.length, 1)
  },
)
