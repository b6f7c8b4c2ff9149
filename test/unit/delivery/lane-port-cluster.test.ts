/** Lanes in a cluster: JetStream and PostgreSQL, and leases that say who delivers what. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { openPipeLeases } from '../../../src/cluster/leases.ts'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { startClusterServer } from '../../support/cluster-database.ts'
import type { LaneBackEnd } from '../../support/lane-process.ts'
import { jetStreamSpec, natsFor } from '../buffer/jetstream-open.ts'
import { testLanes } from './lane-conformance.ts'
import { testPullLanes } from './lane-conformance-pull.ts'
import { testOutage } from './lane-outage.ts'
import { testTakeOver } from './lane-take-over.ts'

const postgres = await startClusterServer(t)
const nats = await natsFor(t)

async function open(t: Test, undeliveredSeconds = 168 * 3600): Promise<LaneBackEnd> {
  const { url, sealingKey, workspaceId, openCuttable } = await postgres.create(t)
  const hours = undeliveredSeconds / 3600
  return {
    buffer: jetStreamSpec(t, nats, { undeliveredHours: hours, deliveredHours: Math.min(hours, 24) }),
    workspaceId,
    openCuttable,
    openMetadata: () => openMetadata({ kind: 'postgresql', url }, sealingKey),
    openOwnership: ({ cluster }, log) => openPipeLeases({ store: cluster!, nodeId: randomUUID(), log }),
  }
}

t.test('push', async (t) => testLanes(t, open))
t.test('pull', async (t) => testPullLanes(t, open))
t.test('another node takes over', async (t) => testTakeOver(t, open))
t.test('the buffer does not answer', async (t) => testOutage(t, open, nats.servers[0]!))
