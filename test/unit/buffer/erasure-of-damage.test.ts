/** A deletion in a damaged log: bytes that cannot be read as records are removed too, and the damage stays visible. */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import type { Appended } from '../../../src/log/buffer.ts'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { fileWith } from '../../support/faults/file-with.ts'
import { KiB, message, newPipeId, openAt, readAll, temporaryDirectory } from './open.ts'

const secret = 'anna@example.com'
const small = { segmentMaxBytes: 64 * KiB }
const pipe = newPipeId()
const request = { pipeIds: [pipe], conditions: [{ path: ['user'], value: secret }] }
const everything = { maxRecords: 10_000, maxBytes: 64 * 1024 * KiB }

async function filled(t: Test) {
  const root = temporaryDirectory(t)
  const { handle, close } = await openAt(t, root, small)
  const sent: Appended[] = []
  for (let n = 0; n < 150; n += 1) {
    const user = n % 2 === 0 ? secret : `other${n}`
    const body = JSON.stringify({ user, n, filler: 'f'.repeat(900) })
    sent.push(await handle.appender.append(message(pipe, body)))
  }
  await close()
  return { root, dir: path.join(root, 'buffer'), sent }
}

t.test('a damaged message loses its bytes and remains damaged', async (t) => {
  const { root, dir, sent } = await filled(t)
  const db = new Database(segmentFile(dir, listSegments(dir)[0]!))
  const broken = Buffer.from(`{"user":"${secret}", this is no JSON`)
  db.prepare('UPDATE message SET body = ? WHERE seq = ?').run(broken, sent[0]!.seq)
  db.prepare('UPDATE message SET body = ? WHERE seq = ?').run(Buffer.from('of another person'), sent[1]!.seq)
  db.close()
  const { handle, reader } = await openAt(t, root, small)
  const { messages } = await handle.erasure!.erase(request)
  t.equal(messages, 75)
  t.equal(fileWith(root, secret), null)
  t.not(fileWith(root, 'of another person'), null)
  const run = await reader.read(pipe, 0, everything)
  t.same(
    run.damaged.map(({ seq }) => seq),
    [sent[0]!.seq, sent[1]!.seq],
  )
  t.equal(run.messages.length, 148)
  t.equal((await handle.erasure!.erase(request)).messages, 0, 'a repeat finds nothing')
  t.equal(fileWith(root, secret), null, 'also in what the reader has quarantined')
})

t.test('a damaged segment is salvaged first, and its original removed from the quarantine', async (t) => {
  const { root, dir, sent } = await filled(t)
  const [oldest, next] = listSegments(dir)
  const file = segmentFile(dir, oldest!)
  const descriptor = openSync(file, 'r+')
  // The root of the table of messages, without which none of its rows is found.
  const db = new Database(file, { readonly: true })
  const page = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'message'").pluck().get() as number
  db.close()
  writeSync(descriptor, Buffer.alloc(4 * KiB, 0xee), 0, 4 * KiB, (page - 1) * 4 * KiB)
  closeSync(descriptor)
  t.ok(readFileSync(file).includes(secret))
  const { handle, reader } = await openAt(t, root, small)
  await handle.erasure!.erase(request)
  t.equal(fileWith(root, secret), null)
  t.same(readdirSync(path.join(root, 'quarantine', 'segments')), [])
  const after = sent.filter(({ seq }) => seq >= next!.firstSeq).map(({ seq }) => seq)
  const kept = (await readAll(reader, pipe, next!.firstSeq - 1)).map(({ seq }) => seq)
  t.same(kept, after, 'every message of the other segments is there')
})
