/**
 * The leader of the stream is paused or cut off for longer than the others wait, and goes on without having been restarted. What it had
 * proposed alone must give way to what the others have acknowledged meanwhile: all three servers then have the same. (nats-server
 * 2.9.10 fails this: docs/cluster.md.)
 */
import t, { type Test } from 'tap'
import { streamName } from '../../../src/cluster/jetstream/frames.ts'
import type { OpenBuffer } from '../../../src/log/buffer.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import type { TestNats } from '../../support/nats.ts'
import { copiesOf } from '../../support/nats-copies.ts'
import { until } from '../../support/until.ts'
import { fine, leaderOf, load, moreAcknowledged, natsWith, open, verdictOf } from './jetstream-load.ts'
import { jetStreamSpec } from './jetstream-open.ts'
import { newPipeId } from './open.ts'

/** One that appends through each server, and stays there. */
async function atEach(t: Test, nats: TestNats, spec: JetStreamSpec): Promise<OpenBuffer[]> {
  await nats.ready()
  return await Promise.all(
    nats.servers.map(({ url }) => open(t, { ...spec, nats: { ...spec.nats, servers: [url] } })),
  )
}

async function sameEverywhere(t: Test, nats: TestNats, spec: JetStreamSpec): Promise<void> {
  const copies = await copiesOf(nats, streamName(spec.cluster))
  const [[, first = []] = [], ...others] = copies
  t.equal(copies.size, 3)
  for (const [name, messages] of others) t.same(messages, first, `${name} has the same`)
}

t.test('a cluster of three', async (t) => {
  const nats = await natsWith(t, { replicas: 3, proxyRoutes: true })
  const pipes = [newPipeId(), newPipeId(), newPipeId()]

  t.test('its leader is paused for longer than anybody waits, and goes on', async (t) => {
    const spec = jetStreamSpec(t, nats)
    const buffers = await atEach(t, nats, spec)
    const ledger = await load(buffers, pipes, async (ledger) => {
      for (let round = 0; round < 2; round += 1) {
        await moreAcknowledged(ledger, 500)
        const leader = await until('a leader', () => leaderOf(nats, spec))
        leader.pause()
        try {
          await moreAcknowledged(ledger, 1_000)
        } finally {
          leader.resume()
        }
      }
      await moreAcknowledged(ledger, 1_000)
    })
    t.same(await verdictOf(t, spec, pipes, ledger), fine)
    t.ok(ledger.rejected > 0, 'the faults were felt')
    await sameEverywhere(t, nats, spec)
  })

  t.test('its leader is cut off with some of the senders, and comes back', async (t) => {
    const spec = jetStreamSpec(t, nats)
    const buffers = await atEach(t, nats, spec)
    const ledger = await load(buffers, pipes, async (ledger) => {
      await moreAcknowledged(ledger, 500)
      const leader = await until('a leader', () => leaderOf(nats, spec))
      leader.isolate()
      try {
        await moreAcknowledged(ledger, 1_000)
      } finally {
        leader.rejoin()
      }
      await moreAcknowledged(ledger, 1_000)
    })
    t.same(await verdictOf(t, spec, pipes, ledger), fine)
    t.ok(ledger.rejected > 0, 'the faults were felt')
    await sameEverywhere(t, nats, spec)
  })
})
