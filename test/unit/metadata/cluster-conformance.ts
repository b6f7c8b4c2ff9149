/**
 * The conformance suite of `ClusterStore`. The caller provides an empty database, and a function that advances its
 * clock: only the database decides whether something has expired.
 */
import type { Test } from 'tap'
import { leaseMs } from '../../../src/metadata/cluster-store.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { databaseDestination, limits, newPipe, newWorkspace } from './fixture.ts'

export interface ClusterDatabase {
  /** One more handle on the same database. */
  open(): Promise<Metadata>
  /** Every lease that is there now ends so many ms sooner. */
  pass(ms: number): Promise<void>
}

const entry = (nodeId: string) => ({ nodeId, name: `node ${nodeId}`, version: '1.0.0', address: null })

export function testClusterStore(t: Test, create: (t: Test) => Promise<ClusterDatabase>): void {
  t.test('a node is there while it renews, and gone for good once it was removed', async (t) => {
    const database = await create(t)
    const [here, there] = [(await database.open()).cluster!, (await database.open()).cluster!]
    await here.nodes.join(entry('a'), 'lease a', 0, false)
    await there.nodes.join(entry('b'), 'lease b', 0, false)
    await database.pass(leaseMs - 1_000)
    t.strictSame(await here.nodes.renew('lease a', leaseMs), { isDraining: false })
    await database.pass(2_000)
    t.equal(await there.nodes.renew('lease b', leaseMs), null, 'an expired lease is not renewed')
    t.match(await there.nodes.list(), [
      { nodeId: 'a', name: 'node a', version: '1.0.0', ownedPipes: 0, isDelivering: false },
      { nodeId: 'b', leftMs: 0 },
    ])
    t.strictSame(await there.nodes.lost(), [])
    await here.nodes.removeExpired()
    t.match(await there.nodes.list(), [{ nodeId: 'a' }])
    t.match(await there.nodes.lost(), [{ nodeId: 'b', name: 'node b' }], 'every node knows that it is lost')
    t.equal(await there.nodes.renew('lease b', leaseMs), null)
    await there.nodes.join(entry('b'), 'lease b2', 0, false)
    t.strictSame(await here.nodes.lost(), [], 'it is back')
    t.strictSame(await there.nodes.renew('lease b2', leaseMs), { isDraining: false })
    await there.nodes.leave('lease b2')
    t.match(await here.nodes.list(), [{ nodeId: 'a' }])
    t.strictSame(await here.nodes.lost(), [], 'a node that leaves is not lost')
  })

  t.test('a node is asked to drain; it keeps that when it joins again', async (t) => {
    const { cluster } = await (await create(t)).open()
    await cluster!.nodes.join(entry('a'), 'one', 0, false)
    t.equal(await cluster!.nodes.setDraining('a', true), true)
    t.equal(await cluster!.nodes.setDraining('b', true), false)
    t.strictSame(await cluster!.nodes.renew('one', leaseMs), { isDraining: true })
    await cluster!.nodes.join(entry('a'), 'two', 0, true)
    t.match(await cluster!.nodes.list(), [{ nodeId: 'a', isDraining: true }])
    t.equal(await cluster!.nodes.renew('one', leaseMs), null)
  })

  t.test('a pipe is taken by one worker, and by another when the first is gone', async (t) => {
    const database = await create(t)
    const metadata = await database.open()
    const { pipes } = metadata.cluster!
    const other = (await database.open()).cluster!.pipes
    const workspaceId = await newWorkspace(metadata, 'default')
    const ids = []
    for (const name of ['one', 'two', 'three']) ids.push((await newPipe(metadata, workspaceId, name)).pipe_id)
    ids.sort()
    await pipes.join({ nodeId: 'a', leaseId: 'worker a' })
    await other.join({ nodeId: 'b', leaseId: 'worker b' })
    const free = await pipes.free()
    t.strictSame(free.map(({ pipeId }) => pipeId).sort(), ids)
    const [first] = await pipes.claim('worker a', [free[0]!])
    t.strictSame(first, { pipeId: free[0]!.pipeId, epoch: 1 })
    t.strictSame(await other.claim('worker b', [free[0]!]), [], 'as it was found, it is no longer')
    t.strictSame(await other.free(first!.pipeId), [])
    t.equal((await other.claim('worker b', free)).length, 2)
    t.strictSame((await pipes.owners()).get(free[0]!.pipeId), 'a')
    t.equal(await other.renew('worker b'), 2)

    await database.pass(leaseMs + 1)
    t.equal(await pipes.renew('worker a'), null)
    t.strictSame(await pipes.owners(), new Map())
    t.strictSame(await other.free(), [], 'not before the lease is removed: a renewal may be under way')
    await pipes.removeExpired()
    const freed = await pipes.free()
    t.equal(freed.length, 3)
    await other.join({ nodeId: 'b', leaseId: 'worker b2' })
    const taken = await other.claim('worker b2', freed)
    t.strictSame(
      taken.map(({ epoch }) => epoch),
      [2, 2, 2],
    )
    t.strictSame(await pipes.claim('worker a', freed), [], 'who was counted out takes nothing')

    await other.release('worker b2', { ...taken[0]!, epoch: 1 })
    t.equal((await other.held('worker b2')).length, 3, 'an old release frees nothing')
    await other.release('worker b2', taken[0]!)
    t.strictSame(await pipes.free(), [{ pipeId: taken[0]!.pipeId, heldBy: null }])
    t.strictSame(await other.claim('worker b2', await pipes.free()), [{ ...taken[0]!, epoch: 3 }])
    await other.leave('worker b2')
    t.equal((await pipes.free()).length, 3)

    await metadata.pipes.delete({ workspaceId, pipeId: ids[0]! })
    t.equal((await pipes.free()).length, 2, 'a deleted pipe has no owner')
  })

  t.test('the epoch of a pipe begins above those that its lanes were saved under', async (t) => {
    const metadata = await (await create(t)).open()
    const workspaceId = await newWorkspace(metadata, 'default')
    const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'moved')
    const made = await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination())
    const state = await metadata.laneStore.load(made.destination_id)
    await metadata.laneStore.save([{ ...state!, ownerEpoch: 7 }], [])
    const { pipes } = metadata.cluster!
    await pipes.join({ nodeId: 'a', leaseId: 'worker a' })
    t.strictSame(await pipes.claim('worker a', await pipes.free()), [{ pipeId, epoch: 8 }])
  })

  t.test('the second worker of a node ends the first one', async (t) => {
    const { pipes } = (await (await create(t)).open()).cluster!
    await pipes.join({ nodeId: 'a', leaseId: 'first' })
    await pipes.join({ nodeId: 'a', leaseId: 'second' })
    t.equal(await pipes.renew('first'), null)
    t.strictSame(await pipes.workers(), [{ leaseId: 'second', nodeId: 'a', isDraining: false, buffer: null }])
  })

  t.test('changes are numbered without gaps, whoever makes them, and read from any place', async (t) => {
    const database = await create(t)
    const handles = [await database.open(), await database.open(), await database.open()]
    const [metadata] = handles
    const { changes } = metadata!.cluster!
    const workspaceId = await newWorkspace(metadata!, 'default')
    const before = await changes.newest()
    const pipes = await Promise.all(
      [...Array(12).keys()].map((n) => newPipe(handles[n % 3]!, workspaceId, `pipe_${n}`)),
    )
    const made = await changes.since(before, 100)
    t.strictSame(
      made?.map(({ seq }) => seq),
      pipes.map((_, n) => before + n + 1),
    )
    const idOf = ({ change }: { change: object }) => ('pipeId' in change ? change.pipeId : null)
    t.strictSame(made?.map(idOf).sort(), pipes.map(({ pipe_id }) => pipe_id).sort())
    t.equal((await changes.since(before, 5))?.length, 5)
    t.strictSame(await changes.since(before + 12, 5), [])
    t.equal(await changes.since(before + 13, 5), null, 'what is newer than the newest was never seen here')
  })

  t.test('what other nodes keep copies of is a change, and nothing else', async (t) => {
    const metadata = await (await create(t)).open()
    const { changes } = metadata.cluster!
    let seen = 0
    const next = async () => {
      const found = (await changes.since(seen, 100)) ?? []
      seen = found.at(-1)?.seq ?? seen
      return found.map(({ change }) => change)
    }
    const { workspaceId, apiKeyId } = await metadata.workspaces.create('default', mintApiKey('first').key)
    t.strictSame(await next(), [{ apiKeyId, isRevoked: false }])
    const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'one')
    t.strictSame(await next(), [{ pipeId }])
    await metadata.limits.put({ workspaceId, pipeId }, limits)
    await metadata.limits.delete({ workspaceId, pipeId })
    const made = await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination())
    await metadata.destinations.update(
      { workspaceId, pipeId, destinationId: made.destination_id },
      {
        destination_status: 'blocked',
      },
    )
    await metadata.destinations.delete({ workspaceId, pipeId, destinationId: made.destination_id })
    const origin = await metadata.origins.add({ workspaceId, pipeId }, 'https://app.example')
    await metadata.origins.remove({ workspaceId, pipeId }, origin.pipe_allowed_origin_id)
    await metadata.pipes.update({ workspaceId, pipeId }, { pipe_status: 'paused' })
    await metadata.pipes.delete({ workspaceId, pipeId })
    t.strictSame(await next(), Array(9).fill({ pipeId }))
    const key = await metadata.apiKeys.create(workspaceId, mintApiKey('second').key)
    const rotated = await metadata.apiKeys.rotate(
      { workspaceId, apiKeyId: key.api_key_id },
      null,
      () => mintApiKey('third').key,
    )
    const created = rotated!.created.api_key_id
    await metadata.apiKeys.revoke({ workspaceId, apiKeyId: created })
    t.strictSame(await next(), [
      { apiKeyId: key.api_key_id, isRevoked: false },
      { apiKeyId: created, isRevoked: false },
      { apiKeyId: key.api_key_id, isRevoked: true },
      { apiKeyId: created, isRevoked: true },
    ])
    await metadata.apiKeys.forget(workspaceId, [created])
    await metadata.users.create(workspaceId, { email: 'a@b.example', role: 'viewer', passwordHash: 'x' })
    t.strictSame(await next(), [])
  })

  t.test('a change is awaited of every valid node but the one that asks', async (t) => {
    const database = await create(t)
    const { nodes, changes } = (await database.open()).cluster!
    await nodes.join(entry('a'), 'a', 3, false)
    await nodes.join(entry('b'), 'b', 3, false)
    t.equal(await changes.isAwaited(3, 'a'), false)
    t.equal(await changes.isAwaited(4, 'a'), true)
    await nodes.seen('b', 4)
    t.equal(await changes.isAwaited(4, 'a'), false)
    await nodes.seen('b', 2)
    t.equal(await changes.isAwaited(4, 'a'), false, 'nobody unlearns')
    t.equal(await changes.isAwaited(5, 'a'), true)
    await database.pass(leaseMs + 1)
    t.equal(await changes.isAwaited(5, 'a'), false, 'who has expired is not waited for')
  })

  t.test('changes that all have seen go when they are old; the newest stays', async (t) => {
    const database = await create(t)
    const metadata = await database.open()
    const { nodes, changes } = metadata.cluster!
    const workspaceId = await newWorkspace(metadata, 'default')
    for (const name of ['one', 'two', 'three']) await newPipe(metadata, workspaceId, name)
    await nodes.join(entry('a'), 'a', 3, false)
    await nodes.join(entry('b'), 'b', 2, false)
    await changes.prune(3_600_000)
    t.equal((await changes.since(0, 10))?.length, 4, 'young')
    await changes.prune(-1_000)
    t.equal(await changes.since(1, 10), null, 'of what was seen and is gone, everything must be read again')
    t.strictSame(
      (await changes.since(2, 10))?.map(({ seq }) => seq),
      [3, 4],
    )
    await nodes.seen('a', 4)
    await nodes.seen('b', 4)
    await changes.prune(-1_000)
    t.equal(await changes.newest(), 4)
  })

  t.test('one node has a duty, the next one when it is gone', async (t) => {
    const database = await create(t)
    const { nodes, duties } = (await database.open()).cluster!
    await nodes.join(entry('a'), 'a', 0, false)
    await nodes.join(entry('b'), 'b', 0, false)
    const both = await Promise.all([duties.claim('housekeeping', 'a'), duties.claim('housekeeping', 'b')])
    t.equal(both.filter(Boolean).length, 1)
    const [has, has_not] = both[0] ? ['a', 'b'] : ['b', 'a']
    t.equal(await duties.claim('housekeeping', has!), true)
    t.equal(await duties.claim('housekeeping', has_not!), false)
    t.equal(await duties.claim('alerts', has_not!), true, 'each duty by itself')
    await duties.release('housekeeping', has_not!)
    t.equal(await duties.claim('housekeeping', has_not!), false)
    await nodes.leave(has!)
    t.equal(await duties.claim('housekeeping', has_not!), true)
  })
}
