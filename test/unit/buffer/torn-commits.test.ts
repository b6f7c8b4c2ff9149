/**
 * Commits that waited for a sync when the power failed are torn, and what lies behind the torn part may be whole. Of these
 * nobody was told: the start leaves them out, and reports no damage. What was acknowledged is salvaged.
 */
import { closeSync, cpSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { segmentFile } from '../../../src/buffer/segments/layout.ts'
import { mostUnsyncedCommits } from '../../../src/buffer/segments/wal-sync.ts'
import { message, newPipeId, openAt, readAll, specAt, temporaryDirectory, textsOf } from './open.ts'

const frameHeaderBytes = 24

interface Log {
  root: string
  pipeId: string
  /** After so many messages: where the WAL ended, and the mark. */
  after: { walBytes: number; mark: Buffer }[]
}

/** Five commits of one message each, as the power leaves them. */
async function logOfFive(t: Test): Promise<Log> {
  const root = temporaryDirectory(t)
  const copy = temporaryDirectory(t)
  const { dir } = specAt(root)
  const wal = `${segmentFile(dir, { firstSeq: 1, generation: 0 })}-wal`
  const { handle } = await openAt(t, root)
  const pipeId = newPipeId()
  const look = () => ({ walBytes: statSync(wal).size, mark: readFileSync(path.join(dir, 'high-water')) })
  const after = [look()]
  for (let n = 1; n <= 5; n += 1) {
    await handle.appender.append(message(pipeId, `${n}`))
    after.push(look())
  }
  cpSync(dir, specAt(copy).dir, { recursive: true })
  return { root: copy, pipeId, after }
}

/** The commit of the n-th message is torn, and so many messages had been acknowledged. */
function tear({ root, after }: Log, n: number, acknowledged: number): void {
  const { dir } = specAt(root)
  const fd = openSync(`${segmentFile(dir, { firstSeq: 1, generation: 0 })}-wal`, 'r+')
  writeSync(fd, Buffer.alloc(512), 0, 512, after[n - 1]!.walBytes + frameHeaderBytes)
  closeSync(fd)
  writeFileSync(path.join(dir, 'high-water'), after[acknowledged]!.mark)
}

async function start(t: Test, { root, pipeId }: Log) {
  const { handle, reader } = await openAt(t, root)
  const { lostMessages, missingAcknowledged } = await handle.status()
  const texts = textsOf(await readAll(reader, pipeId))
  const { seq } = await handle.appender.append(message(pipeId, 'next'))
  return { texts, seq, lostMessages, missingAcknowledged }
}

t.test('as many as can wait for a sync are left out without an alarm', async (t) => {
  const log = await logOfFive(t)
  const synced = 5 - mostUnsyncedCommits
  tear(log, synced + 1, synced)
  t.same(await start(t, log), {
    texts: ['1', '2', '3'],
    ...{ seq: 4, lostMessages: 0, missingAcknowledged: 0 },
  })
})

t.test('control: of what was acknowledged only the torn one is lost', async (t) => {
  const log = await logOfFive(t)
  tear(log, 4, 5)
  const { texts, seq, lostMessages } = await start(t, log)
  t.same(texts.at(-1), '5')
  t.ok(seq > 5)
  t.equal(lostMessages, 5 - texts.length)
})

t.test('more torn commits than can wait for a sync are damage, whatever the mark says', async (t) => {
  const log = await logOfFive(t)
  tear(log, 5 - mostUnsyncedCommits, 2)
  const { texts } = await start(t, log)
  t.same(texts.at(-1), '5')
})
