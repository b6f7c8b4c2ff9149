/** Lanes on one machine: segments and SQLite. */
import { randomBytes } from 'node:crypto'
import path from 'node:path'
import t, { type Test } from 'tap'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import { ownsEverything } from '../../../src/metadata/lane-state.ts'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import type { LaneBackEnd } from '../../support/lane-process.ts'
import { KiB, specAt, temporaryDirectory } from '../buffer/open.ts'
import { testLanes } from './lane-conformance.ts'
import { testPullLanes } from './lane-conformance-pull.ts'

async function open(t: Test, undeliveredSeconds = 168 * 3600): Promise<LaneBackEnd> {
  const root = temporaryDirectory(t)
  const sealingKey = randomBytes(32)
  const spec = { kind: 'sqlite', file: path.join(root, 'metadata.db') } as const
  const openOne = () => openMetadata(spec, sealingKey)
  const metadata = await openOne()
  const { workspaceId } = await metadata.workspaces.create('lanes', mintApiKey('first').key)
  await metadata.close()
  return {
    buffer: specAt(root, { undeliveredHours: undeliveredSeconds / 3600, segmentMaxBytes: 64 * KiB }),
    workspaceId,
    openMetadata: openOne,
    openOwnership: async () => ({ ...ownsEverything, close: async () => {} }),
  }
}

// One process owns everything, and its files are always there: nobody takes over, and no read has to wait.
t.test('push', async (t) => testLanes(t, open))
t.test('pull', async (t) => testPullLanes(t, open))
