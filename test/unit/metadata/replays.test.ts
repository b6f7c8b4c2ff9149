/** Replays of ranges in the store: what is kept of those that ended, and what another workspace sees of them. */
import t, { type Test } from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { newLaneState } from '../../../src/metadata/lane-state.ts'
import { databaseDestination, newPipe, newWorkspace, open, testFile } from './fixture.ts'

const range = {
  ...{ from: 'earliest', to: 'now', messages: 2, records: 2, bytes: 9, first_seq: 1, last_seq: 2 },
  ...{ after: { seq: 0, mark: '{"messages":0,"records":0,"bytes":0}' }, throughSeq: 2 },
}
const { replaysPerLane, finishedReplaysPerLane, finishedReplayDays } = resourceLimits
const dayMs = 86_400_000

async function scene(t: Test) {
  let nowMs = 1_800_000_000_000
  const metadata = await open(t, { ...testFile(t), now: () => nowMs })
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const given = databaseDestination()
  const { destination_id: destinationId } = await metadata.destinations.create({ workspaceId, pipeId }, given)
  const ref = { workspaceId, pipeId, destinationId }
  const create = async () => {
    const made = await metadata.replays.create(ref, range)
    return made.kind === 'created' ? made.replay.replay_id : made.kind
  }
  const later = (ms: number) => {
    nowMs += ms
  }
  return { metadata, ref, create, later }
}

t.test('a number of them can wait, the newest that ended are kept, for some days', async (t) => {
  const { metadata, ref, create, later } = await scene(t)
  const first = await create()
  for (let count = 1; count < replaysPerLane; count += 1) await create()
  t.equal(await create(), 'full')
  t.equal(await metadata.replays.cancel(ref, first), 'cancelled')
  t.equal(await metadata.replays.cancel(ref, first), 'finished')
  for (let count = 0; count < finishedReplaysPerLane + 5; count += 1)
    await metadata.replays.cancel(ref, await create())
  const all = await metadata.replays.list(ref)
  t.equal(all.filter(({ state }) => state === 'waiting').length, replaysPerLane - 1)
  t.equal(all.length, replaysPerLane - 1 + finishedReplaysPerLane)
  t.equal(await metadata.replays.get(ref, first), null, 'the oldest that ended is gone')
  t.strictSame(
    all.map(({ replay_id }) => replay_id),
    all
      .map(({ replay_id }) => replay_id)
      .toSorted()
      .reverse(),
  )
  later((finishedReplayDays + 1) * dayMs)
  t.equal((await metadata.replays.list(ref)).length, replaysPerLane - 1)
})

t.test('another workspace sees and cancels none of them', async (t) => {
  const { metadata, ref, create } = await scene(t)
  const replayId = await create()
  const other = { ...ref, workspaceId: await newWorkspace(metadata, 'other') }
  t.strictSame(await metadata.replays.list(other), [])
  t.equal(await metadata.replays.get(other, replayId), null)
  t.equal(await metadata.replays.cancel(other, replayId), 'not_found')
  t.strictSame(await metadata.replays.create(other, range), { kind: 'not_found' })
  t.match(await metadata.replays.get(ref, replayId), { state: 'waiting' })
})

t.test('progress is saved with the lane; a cancelled replay stays cancelled, with its counts', async (t) => {
  const { metadata, ref, create } = await scene(t)
  const { destinationId } = ref
  const replayId = await create()
  const found = await metadata.parkedStore.nextRange(destinationId)
  t.match(found, { replayId, state: 'waiting', throughSeq: 2 })
  t.equal((await metadata.parkedStore.counts(destinationId)).hasRanges, true)
  const position = { ...newLaneState(destinationId, 1), deliveredRecords: 1 }
  const progress = { ...found!.progress, position, startedMs: 5, doneMessages: 1 }
  const row = (await metadata.laneStore.load(destinationId))!
  const save = (state: 'running' | 'done') =>
    metadata.laneStore.save(
      [{ ...row }],
      [],
      new Map([[destinationId, [{ kind: 'range', replayId, state, progress }]]]),
    )
  await save('running')
  t.match(await metadata.parkedStore.nextRange(destinationId), { state: 'running', progress })
  await metadata.replays.cancel(ref, replayId)
  await save('done')
  t.match(await metadata.replays.get(ref, replayId), {
    state: 'cancelled',
    done_messages: 1,
    replayed_records: 1,
  })
  t.equal(await metadata.parkedStore.nextRange(destinationId), null)
  t.equal((await metadata.parkedStore.counts(destinationId)).hasRanges, false)
})
