/** The look-up of idempotency keys by itself: its clock, its flush, and what becomes of it when it is damaged. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openIdempotencyKeys } from '../../../src/log/segments/idempotency.ts'
import { segmentFile } from '../../../src/log/segments/layout.ts'
import { faultyDisk } from '../../support/faults/library.ts'
import { runProgram } from '../../support/faults/store-run.ts'
import { readTrace } from '../../support/faults/trace.ts'
import { idempotent, KiB, message, newPipeId, openAt, specAt, temporaryDirectory } from './open.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

function openKeys(t: Test, dir: string, { clockMs = 0, headSeq = 1_000_000, maxBytes = 0 } = {}) {
  const lines: Record<string, unknown>[] = []
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) })
  const file = path.join(dir, 'idempotency.db')
  const keys = openIdempotencyKeys({ dir, file, headSeq, clockMs, maxBytes }, log)
  t.teardown(() => keys.close())
  return { keys, events: () => lines.map(({ msg }) => msg) }
}

const used = (pipeId: string, seq: number, receivedMs = Date.now()) => ({
  ...{ pipeId, key: `key ${seq}`, bodyHash: 'hash', seq, msgId: newPipeId(), recordCount: 1 },
  receivedMs,
})

t.test('a key counts for 24 h of the buffer clock, whatever the wall clock said', async (t) => {
  const dir = temporaryDirectory(t)
  const pipeId = newPipeId()
  const first = openKeys(t, dir, { clockMs: 5 * hourMs })
  const [long, past] = [used(pipeId, 1, Date.now() + 365 * dayMs), used(pipeId, 2, 0)]
  first.keys.remember([long, past], 5 * hourMs)
  for (const keys of [first.keys, openKeys(t, dir, { clockMs: 6 * hourMs }).keys]) {
    t.equal(keys.flush(2, 29 * hourMs), true)
    t.equal(keys.find({ pipeId, key: 'key 1' }, 29 * hourMs)?.seq, 1)
    t.equal(keys.find({ pipeId, key: 'key 2' }, 29 * hourMs)?.seq, 2)
    t.equal(keys.find({ pipeId, key: 'key 2' }, 29 * hourMs + 1), null)
  }
})

t.test('at any rate, no key is kept for longer than its 24 h and the two hours of its table', async (t) => {
  const dir = temporaryDirectory(t)
  const { keys } = openKeys(t, dir)
  const pipeId = newPipeId()
  const [every, perStep] = [hourMs, 4_000]
  let seq = 0
  let largest = 0
  for (let clockMs = 0; clockMs <= 2 * dayMs; clockMs += every) {
    const some = Array.from({ length: perStep }, (_, n) => used(pipeId, seq + n + 1))
    seq += perStep
    keys.remember(some, clockMs)
    t.equal(keys.flush(seq, clockMs), true)
    if (clockMs === 28 * hourMs) largest = keys.bytes
  }
  t.ok(keys.bytes <= largest * 1.05, `${keys.bytes} bytes after 48 h, ${largest} after 28 h`)
  const alive = (dayMs + 2 * hourMs) / every
  t.ok(keys.bytes < (alive + 1) * perStep * 200, 'about the keys that are alive')
  t.equal(keys.find({ pipeId, key: `key ${seq - (dayMs / every - 1) * perStep}` }, 2 * dayMs)?.recordCount, 1)
})

t.test('a pipe that has used its share of the space gets no more keys, others do', async (t) => {
  const dir = temporaryDirectory(t)
  const { keys } = openKeys(t, dir)
  const [hog, other] = [newPipeId(), newPipeId()]
  const workspaces: [string, string][] = [
    [hog, newPipeId()],
    [other, newPipeId()],
  ]
  let taken = 0
  for (; taken < 100_000; taken += 1) {
    if (taken % 500 === 0) keys.measure(workspaces)
    if (!keys.takeShare(hog)) break
    const key = { ...used(hog, taken + 1), key: 'x'.repeat(250) + taken }
    keys.remember([key], 0)
  }
  t.ok(taken > 1_000 && keys.bytes < 1.1 * 1024 * KiB, `${taken} keys take ${keys.bytes} bytes`)
  t.equal(keys.takeShare(other), true)
  t.equal(keys.flush(taken, 0), true)
  const again = openKeys(t, dir).keys
  again.measure(workspaces)
  t.equal(again.takeShare(hog), false, 'also after a restart')
  t.equal(again.flush(taken, dayMs + 2 * hourMs), true)
  again.measure(workspaces)
  t.equal(again.takeShare(hog), true, 'when they are too old, there is space again')
})

t.test('keys are on disk before the segment of their messages goes', async (t) => {
  const work = temporaryDirectory(t)
  const root = path.join(work, 'root')
  mkdirSync(root)
  const disk = faultyDisk(root, path.join(work, 'faults'), { trace: true })
  await runProgram({
    root,
    env: disk.env,
    settings: { segmentMaxBytes: 64 * KiB, deliveredMaxBytes: 0 },
    steps: [
      { do: 'open' },
      { do: 'append', count: 40, bytes: 5_000 },
      { do: 'deliver' },
      { do: 'append', count: 40, bytes: 5_000 },
      { do: 'exit' },
    ],
  })
  const calls = readTrace(disk.traceFile)
  const dropped = calls.findIndex(({ kind, path: file }) => kind === 'unlink' && /\d+\.db$/.test(file))
  t.ok(dropped > 0, 'a segment was dropped')
  const before = calls.slice(0, dropped)
  const isOfKeys = ({ path: file }: { path: string }) => file.endsWith('idempotency.db-wal')
  const written = before.findLastIndex((call) => call.kind === 'write' && isOfKeys(call))
  const synced = before.findLastIndex((call) => /sync/.test(call.kind) && isOfKeys(call))
  t.ok(written > 0 && synced > written, `written at ${written}, synced at ${synced}, dropped at ${dropped}`)
})

const damages: [string, (file: string) => void][] = [
  ['garbage after its first page', (file) => writeFileSync(file, withGarbage(readFileSync(file)))],
  ['text', (file) => writeFileSync(file, 'not a database '.repeat(1000))],
  [
    'another database',
    (file) => replaceBy(file, 'CREATE TABLE used_key (other); CREATE TABLE derived (other)'),
  ],
  [
    'a directory',
    (file) => {
      rmSync(file)
      mkdirSync(file)
    },
  ],
]

function withGarbage(content: Buffer): Buffer {
  return content.fill('garbage ', 4096)
}

function replaceBy(file: string, sql: string): void {
  rmSync(file)
  const db = new Database(file)
  db.exec(sql)
  db.close()
}

for (const [what, damage] of damages) {
  t.test(`${what} in its place: it is made again from the messages, and said`, async (t) => {
    const root = temporaryDirectory(t)
    const pipeId = newPipeId()
    const { handle, close } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
    for (let n = 0; n < 40; n += 1)
      await handle.appender.append(message(pipeId, 'x'.repeat(4 * KiB), idempotent(`key ${n}`)))
    await close()
    const { dir } = specAt(root)
    damage(path.join(dir, 'idempotency.db'))
    const { keys, events } = openKeys(t, dir)
    t.same(events(), ['buffer.idempotency_rebuilt'])
    t.equal(keys.find({ pipeId, key: 'key 0' }, 0)?.seq, 1)
    t.equal(keys.find({ pipeId, key: 'key 39' }, 0)?.seq, 40)
  })
}

const rowDamages = [
  "msg_id = 'no id'",
  "msg_id = x'00'",
  "received_ms = 'never'",
  "record_count = 'some'",
  "body_hash = x'00'",
  "idempotency_key = x'00'",
]

/** The tables are strict when they are written; a flipped bit can change the type of a stored value. */
function forgetTypes(file: string): void {
  const db = new Database(file).unsafeMode()
  db.pragma('writable_schema = ON')
  db.exec("UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'message'")
  db.close()
}

t.test('rows with values that were never written are left out, and said', async (t) => {
  for (const damage of rowDamages) {
    const root = temporaryDirectory(t)
    const pipeId = newPipeId()
    const { handle, close } = await openAt(t, root)
    for (let n = 0; n < 3; n += 1) await handle.appender.append(message(pipeId, 'x', idempotent(`key ${n}`)))
    await close()
    const { dir } = specAt(root)
    const file = segmentFile(dir, { firstSeq: 1, generation: 0 })
    forgetTypes(file)
    const segment = new Database(file)
    segment.exec(`UPDATE message SET ${damage} WHERE seq = 2`)
    segment.close()
    for (const suffix of ['', '-wal', '-shm'])
      rmSync(path.join(dir, `idempotency.db${suffix}`), { force: true })
    const { keys, events } = openKeys(t, dir)
    t.same(events(), ['buffer.idempotency_keys_unreadable'], damage)
    t.same(
      [0, 1, 2].map((n) => keys.find({ pipeId, key: `key ${n}` }, 0)?.seq),
      [1, undefined, 3],
      damage,
    )
  }
})

t.test('a table of keys without its pages: it is made again from the messages', async (t) => {
  const root = temporaryDirectory(t)
  const pipeId = newPipeId()
  const { handle, close } = await openAt(t, root)
  for (let n = 0; n < 200; n += 1) await handle.appender.append(message(pipeId, 'x', idempotent(`key ${n}`)))
  await close()
  const { dir } = specAt(root)
  const file = path.join(dir, 'idempotency.db')
  const db = new Database(file)
  const pages = db.prepare("SELECT pageno FROM dbstat WHERE name = 'key_0'").pluck().all()
  db.close()
  const content = readFileSync(file)
  for (const page of pages) content.fill(0, (Number(page) - 1) * 4096, Number(page) * 4096)
  writeFileSync(file, content)

  const { keys, events } = openKeys(t, dir)
  t.same(events(), ['buffer.idempotency_rebuilt'])
  t.equal(keys.find({ pipeId, key: 'key 7' }, 0)?.seq, 8)
  t.equal(keys.find({ pipeId, key: 'key 199' }, 0)?.seq, 200)
})
