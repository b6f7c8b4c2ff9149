/** Which metadata goes with which buffer: across versions, restores and crashes between the two. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { dataDirAt } from '../../../src/maintenance/data-dir.ts'
import { requireMatchingStores } from '../../../src/maintenance/matching-stores.ts'
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
