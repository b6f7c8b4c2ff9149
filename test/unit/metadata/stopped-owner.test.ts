/**
 * An owner of a lane that was stopped (SIGSTOP) while another took the lane over, and goes on: whatever it writes then is
 * rejected, and metadata is what it was. It runs on one machine's store as well, where two processes never share a file: the
 * rule is the store's.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { childFlags } from '../../support/child-flags.ts'
import { standStill } from '../../support/stand-still.ts'
import { rowsOf, tablesOf } from './database.ts'
import { databaseDestination, newPipe, newWorkspace, open, ownerOf, testFile } from './fixture.ts'
import {
  absoluteWrites,
  countedTotals,
  notFenced,
  type OwnerWrite,
  parkedOf,
  writesOf,
} from './owner-writes.ts'

const stoppedEpoch = 3

/** A lane with a history and a parked message of ten records that is being replayed. Its owner has a process of its own. */
async function scene(t: Test) {
  const options = testFile(t)
  const metadata = await open(t, options)
  const { laneStore, parkedStore, driftStore } = metadata
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { destination_config: config } = databaseDestination()
  const given = databaseDestination({ destination_config: { ...config, auto_add_columns: true } })
  const { destination_id: id } = await metadata.destinations.create({ workspaceId, pipeId }, given)
  const row = (await laneStore.take(id, stoppedEpoch))!
  const passed = [
    { kind: 'delivered', firstSeq: 1, lastSeq: 40, batchLastSeq: 40, atMs: 5, attempts: 1 } as const,
  ]
  const none = { deliveredRecords: 40, failedAttempts: 0, skippedRecords: 0, filteredRecords: 0 }
  await laneStore.save([{ ...row, cursorSeq: 40 }], [{ destinationId: id, pipeId, ...none, passed }])
  await parkedStore.park(ownerOf(id, stoppedEpoch), [parkedOf(40, 10)])
  await driftStore.save(ownerOf(id, stoppedEpoch), {
    mappingHash: 'kept',
    state: { since_ms: 1, records: 1, keys: [], other_keys: 0, unfilled: [] },
  })
  await metadata.parked.replayMany(
    { workspaceId, destinationId: id },
    { ids: null, errorCode: null, reason: null },
  )
  const parkedId = (await parkedStore.nextReplay(id, 99))!.parkedId
  const everything = async () => {
    // PostgreSQL's counts transactions, also those that change nothing else.
    const notOfLanes = /^sqlite_|^metadata_writers$/
    const tables = (await tablesOf(options)).filter((name) => !notOfLanes.test(name))
    const rows = tables.toSorted().map(async (name) => {
      const found = await rowsOf(options, `SELECT * FROM "${name}"`)
      return [name, found.map((one) => JSON.stringify(one)).sort()]
    })
    return await Promise.all(rows)
  }
  const child = spawn(
    process.execPath,
    [
      ...childFlags,
      new URL('./stopped-owner.ts', import.meta.url).pathname,
      ...[JSON.stringify(options.spec), options.sealingKey.toString('hex'), pipeId, id, String(stoppedEpoch)],
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  t.teardown(() => child.kill('SIGKILL'))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const said = async () => String((await lines.next()).value)
  if ((await said()) !== 'ready') throw new Error('the owner did not begin')
  return { metadata, id, pipeId, parkedId, everything, child, said }
}

function tell(child: ChildProcess, name: OwnerWrite, parkedId: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const line = `${JSON.stringify({ name, parkedId })}\n`
    child.stdin!.write(line, (error) => (error === null || error === undefined ? resolve() : reject(error)))
  })
}

t.test('every write of an owner that was stopped meanwhile is rejected', async (t) => {
  const { metadata, id, pipeId, parkedId, everything, child, said } = await scene(t)
  const names = Object.keys(writesOf(metadata, ownerOf(id), pipeId)) as OwnerWrite[]
  standStill(child.pid!)
  await metadata.laneStore.take(id, stoppedEpoch + 1)
  await metadata.usage.countUpTo([{ pipeId, ...countedTotals }], 0)
  const before = await everything()
  for (const name of names) {
    await tell(child, name, parkedId)
    child.kill('SIGCONT')
    t.equal(await said(), absoluteWrites.includes(name) ? 'stored' : 'LaneOwnershipLostError', name)
    standStill(child.pid!)
    t.strictSame(await everything(), before, `${name} changed nothing`)
  }
  child.kill('SIGCONT')
  child.stdin!.end()
  await once(child, 'exit')
})

t.test('negative control: each of them is stored while the lane is its own', async (t) => {
  const names = Object.keys(writesOf((await scene(t)).metadata, ownerOf('-'), '-')) as OwnerWrite[]
  for (const name of names.filter((one) => one !== 'repair')) {
    const { everything, parkedId, child, said } = await scene(t)
    const before = await everything()
    await tell(child, name, parkedId)
    t.equal(await said(), 'stored', name)
    t.notSame(await everything(), before, `${name} changed something`)
    child.kill('SIGKILL')
  }
})

t.test('a damaged row that the next owner has repaired stays as that one left it', async (t) => {
  const { metadata, id, parkedId, everything, child, said } = await scene(t)
  standStill(child.pid!)
  const row = (await metadata.laneStore.take(id, stoppedEpoch + 1))!
  await metadata.laneStore.save([{ ...row, cursorSeq: 41 }], [])
  const before = await everything()
  await tell(child, 'repair', parkedId)
  child.kill('SIGCONT')
  t.equal(await said(), 'stored')
  t.strictSame(await everything(), before)
})

t.test('every method of the stores is known to be a write or a read', async (t) => {
  const metadata = await open(t)
  const writes = Object.keys(writesOf(metadata, ownerOf('-'), '-'))
  for (const name of ['laneStore', 'parkedStore', 'driftStore', 'addedColumns'] as const) {
    const reads: readonly string[] = notFenced[name]
    const left = Object.keys(metadata[name]).filter((one) => !reads.includes(one))
    const fenced = name === 'driftStore' ? ['save'] : name === 'addedColumns' ? ['plan', 'complete'] : writes
    t.strictSame(
      left.filter((one) => !fenced.includes(one)),
      [],
      `${name}: give it the owner's epoch, and a line in owner-writes.ts`,
    )
  }
})
