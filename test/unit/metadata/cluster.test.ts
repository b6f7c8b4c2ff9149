/** SQLite keeps what nodes share, as PostgreSQL does: no cluster runs on it, but the code is one. */
import t from 'tap'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { testClusterStore } from './cluster-conformance.ts'
import { newPipe, newWorkspace, open, testFile } from './fixture.ts'

testClusterStore(t, async (t) => {
  const { file, sealingKey } = testFile(t)
  let nowMs = Date.now()
  return {
    async open() {
      const options = { now: () => nowMs, isShared: true }
      const metadata = await openMetadata({ kind: 'sqlite', file }, sealingKey, options)
      t.teardown(() => metadata.close())
      return metadata
    },
    async pass(ms) {
      nowMs += ms
    },
  }
})

t.test('on one machine no change is noted', async (t) => {
  const file = testFile(t)
  const metadata = await open(t, file)
  await newPipe(metadata, await newWorkspace(metadata, 'default'), 'one')
  t.equal(metadata.cluster, null)
  const shared = await open(t, { ...file, isShared: true })
  t.equal(await shared.cluster!.changes.newest(), 0)
})
