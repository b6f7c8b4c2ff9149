/** Which metadata goes with which buffer: across versions and restores. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { dataDirAt } from '../../../src/maintenance/data-dir.ts'
import { requireMatchingStores } from '../../../src/maintenance/matching-stores.ts'
import { holdDataDir } from '../../../src/maintenance/repair.ts'
import { beginEpoch } from '../../../src/metadata/sqlite/offline.ts'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { message, newPipeId, openAt } from '../buffer/open.ts'

const key = Buffer.alloc(32, 1)

function temporaryDirectory(t: Test): string {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-stores-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  return root
}

async function makeMetadata(root: string) {
  const metadata = await openMetadata({ kind: 'sqlite', file: path.join(root, 'metadata.db') }, key)
  const identity = await metadata.identity()
  await metadata.close()
  return identity
}

const append = async (t: Test, root: string, dataDirId: string, epoch: number) => {
  const buffer = await openAt(t, root, { identity: { dataDirId, epoch }, nextSeqAtLeast: epoch * 1000 })
  await buffer.handle.appender.append(message(newPipeId(), 'one'))
  await buffer.close()
}

t.test('metadata of before a restore does not go with the restored buffer', async (t) => {
  const root = temporaryDirectory(t)
  const { dataDirId } = await makeMetadata(root)
  const dir = dataDirAt(root)
  requireMatchingStores(dir)
  await append(t, root, dataDirId, 1)
  requireMatchingStores(dir)
  cpSync(dir.metadataFile, `${dir.metadataFile}.old`)
  t.match(beginEpoch(dir.metadataFile, 1, { user: 'me', nowMs: Date.now() }).epochs, [
    { epoch: 1 },
    { epoch: 2, after_seq: 1 },
  ])
  requireMatchingStores(dir)
  await append(t, root, dataDirId, 2)
  requireMatchingStores(dir)
  cpSync(`${dir.metadataFile}.old`, dir.metadataFile)
  for (const suffix of ['-wal', '-shm']) rmSync(dir.metadataFile + suffix, { force: true })
  t.throws(() => requireMatchingStores(dir), /from before the last restore/)
})

const otherFormats = [
  ['a newer', 'UPDATE segment SET format = 3'],
  ['an earlier', 'ALTER TABLE segment DROP COLUMN format'],
] as const
for (const [which, change] of otherFormats)
  t.test(`a buffer that ${which} version wrote is rejected, and not changed`, async (t) => {
    const root = temporaryDirectory(t)
    const dir = dataDirAt(root)
    const { dataDirId } = await makeMetadata(root)
    await append(t, root, dataDirId, 1)
    const db = new Database(segmentFile(dir.bufferDir, listSegments(dir.bufferDir).at(-1)!))
    db.exec(change)
    db.pragma('journal_mode = DELETE')
    db.close()
    const before = contentOf(dir.bufferDir)
    const problem = {
      name: 'ConfigError',
      message: new RegExp(`was written by ${which} pipectl .log format`),
    }
    t.throws(() => requireMatchingStores(dir), problem)
    t.throws(() => holdDataDir(root), problem)
    t.same(contentOf(dir.bufferDir), before)
  })

function contentOf(directory: string): [string, Buffer][] {
  return readdirSync(directory).map((name) => [name, readFileSync(path.join(directory, name))])
}
