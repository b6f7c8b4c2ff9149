/** Lane state: kept exactly, together with what was counted, durable when a save resolves. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import type { LaneState } from '../../../src/metadata/lane-state.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { childFlags } from '../../support/child-flags.ts'
import { onlySqlite, rowsOf } from './database.ts'
import { newPipe, newWorkspace, open, openFile, pullDestination, type TestFile, testFile } from './fixture.ts'

interface Scene {
  options: TestFile
  workspaceId: string
  pipeId: string
  destinationId: string
}

/** A file with one pipe and one lane, closed again. */
async function laneFile(t: Test): Promise<Scene> {
  const options = testFile(t)
  const metadata = await openFile(options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { destination_id: destinationId } = await metadata.destinations.create(
    { workspaceId, pipeId },
    pullDestination(),
  )
  await metadata.close()
  return { options, workspaceId, pipeId, destinationId }
}

async function loaded(metadata: Metadata, destinationId: string): Promise<LaneState> {
  const row = await metadata.laneStore.load(destinationId)
  if (row === null) throw new Error('no lane row')
  return row
}

async function filteredOf(metadata: Metadata, scene: Scene): Promise<number> {
  const ofPipe = (await metadata.usage.byPipe(scene.workspaceId, 0))[scene.pipeId]?.filtered_records ?? 0
  const hours = await metadata.usage.ofLane(
    { workspaceId: scene.workspaceId, destinationId: scene.destinationId },
    0,
    Number.MAX_SAFE_INTEGER,
  )
  const ofLane = [...hours.values()].reduce((sum, hour) => sum + hour.filtered_records, 0)
  if (ofPipe !== ofLane) throw new Error(`${ofPipe} of the pipe, ${ofLane} of its only lane`)
  return ofLane
}

async function deliveredOf(metadata: Metadata, scene: Scene): Promise<number> {
  const usage = await metadata.usage.byPipe(scene.workspaceId, 0)
  return usage[scene.pipeId]?.delivered_records ?? 0
}

function fullRow(destinationId: string): LaneState {
  return {
    destinationId,
    cursorSeq: 2 ** 53 - 1,
    cursorMark: JSON.stringify({ messages: 2 ** 40, records: 2 ** 41, bytes: 2 ** 52 }),
    batchFirstSeq: 5,
    batchLastSeq: 6,
    bisectLastSeq: 7,
    nextFirstSeq: 8,
    nextLastSeq: 9,
    laterRanges: [
      [10, 12],
      [15, 20],
    ],
    generation: 1_763_765_000_001,
    rewoundFromSeq: 10,
    recordOffset: 70,
    sizeLimitRecords: 71,
    sizeSuccesses: 72,
    attempts: 8,
    firstFailedMs: 1_700_000_000_009,
    nextAttemptMs: 1_700_000_000_010,
    blockingMsgId: '0190b0a0-0000-7000-8000-000000000001',
    lastError: {
      ...{ class: 'permanent', code: '22P02', message: 'invalid input "ü\u0001"' },
      ...{ fault: 'records', recordIndex: 17, column: 'größe', value: 'ü' },
    },
    lastDeliveredMs: 1_700_000_000_012,
    deliveredRecords: 13,
    filteredRecords: 5,
    skippedMessages: 14,
    droppedMessages: 15,
    deliveredAttempts: 16,
    failedAttempts: 18,
    leaseMsgId: '0190b0a0-0000-7000-8000-000000000002',
    leaseUntilMs: 1_700_000_000_017,
    ownerEpoch: 3,
  }
}

t.test('every field of a lane survives, and every one can be cleared again', async (t) => {
  const scene = await laneFile(t)
  const metadata = await open(t, scene.options)
  const fresh = await loaded(metadata, scene.destinationId)
  const full = fullRow(scene.destinationId)
  await metadata.laneStore.save([full], [])
  t.strictSame(await metadata.laneStore.load(scene.destinationId), full)
  t.strictSame(
    await (await open(t, scene.options)).laneStore.load(scene.destinationId),
    full,
    'another connection',
  )
  const cleared = { ...fresh, ownerEpoch: full.ownerEpoch }
  await metadata.laneStore.save([cleared], [])
  t.strictSame(await metadata.laneStore.load(scene.destinationId), cleared)
  t.equal(await metadata.laneStore.load('00000000-0000-4000-8000-000000000000'), null)
})

t.test(
  'many lanes are saved at once, and one that was deleted meanwhile disturbs none and does not come back',
  async (t) => {
    const scene = await laneFile(t)
    const metadata = await open(t, scene.options)
    const { workspaceId, pipeId } = scene
    const rows: LaneState[] = []
    for (let index = 0; index < 100; index += 1) {
      const { destination_id: id } = await metadata.destinations.create(
        { workspaceId, pipeId },
        pullDestination(),
      )
      rows.push({ ...(await loaded(metadata, id)), cursorSeq: index + 1 })
    }
    const gone = rows[50]?.destinationId ?? ''
    await metadata.destinations.delete({ workspaceId, pipeId, destinationId: gone })
    await metadata.laneStore.save(rows, [])
    for (const row of rows) {
      t.strictSame(await metadata.laneStore.load(row.destinationId), row.destinationId === gone ? null : row)
    }
  },
)

t.test(
  'a lane that a newer owner has saved is not overwritten, and nothing of that save stays',
  async (t) => {
    const scene = await laneFile(t)
    const metadata = await open(t, scene.options)
    const { workspaceId, pipeId } = scene
    const { destination_id: otherId } = await metadata.destinations.create(
      { workspaceId, pipeId },
      pullDestination(),
    )
    const { destination_id: gone } = await metadata.destinations.create(
      { workspaceId, pipeId },
      pullDestination(),
    )
    await metadata.destinations.delete({ workspaceId, pipeId, destinationId: gone })
    const row = await loaded(metadata, scene.destinationId)
    const other = await loaded(metadata, otherId)
    await metadata.laneStore.save([{ ...row, cursorSeq: 5, ownerEpoch: 3 }], [])
    const stale = [
      { ...other, cursorSeq: 7, ownerEpoch: 2 },
      { ...row, cursorSeq: 6, ownerEpoch: 2 },
      { ...row, destinationId: gone, ownerEpoch: 2 },
    ]
    const count = {
      ...{ destinationId: otherId, pipeId },
      ...{ deliveredRecords: 1, failedAttempts: 0, skippedRecords: 0, filteredRecords: 0 },
    }
    await t.rejects(metadata.laneStore.save(stale, [count]), {
      name: 'LaneOwnershipLostError',
      destinationIds: [scene.destinationId],
    })
    t.match(await loaded(metadata, scene.destinationId), { cursorSeq: 5, ownerEpoch: 3 })
    t.match(await loaded(metadata, otherId), { cursorSeq: 0, ownerEpoch: 0 })
    t.equal(await deliveredOf(metadata, scene), 0)
    await metadata.laneStore.save([{ ...row, cursorSeq: 6, ownerEpoch: 3 }], [])
    t.match(
      await loaded(metadata, scene.destinationId),
      { cursorSeq: 6, ownerEpoch: 3 },
      'control: its owner may',
    )
  },
)

t.test('the lane row and the roll-up move together: when one cannot be written, neither is', async (t) => {
  const scene = await laneFile(t)
  const metadata = await open(t, scene.options)
  const row = await loaded(metadata, scene.destinationId)
  const { pipeId, destinationId } = scene
  const broken = {
    destinationId,
    pipeId,
    deliveredRecords: Number.NaN,
    failedAttempts: 0,
    skippedRecords: 0,
    filteredRecords: 0,
  }
  await t.rejects(metadata.laneStore.save([{ ...row, cursorSeq: 5 }], [broken]), /NOT NULL|bigint: "NaN"/)
  t.strictSame(await metadata.laneStore.load(scene.destinationId), row)
  t.equal(await deliveredOf(metadata, scene), 0)
  await metadata.laneStore.save([{ ...row, cursorSeq: 5 }], [{ ...broken, deliveredRecords: 3 }])
  t.equal((await loaded(metadata, scene.destinationId)).cursorSeq, 5, 'control: a whole save moves both')
  t.equal(await deliveredOf(metadata, scene), 3)
})

t.test('counts of a pipe deleted meanwhile are dropped without failing the save', async (t) => {
  const scene = await laneFile(t)
  const metadata = await open(t, scene.options)
  const { pipe_id: gone } = await newPipe(metadata, scene.workspaceId, 'gone')
  await metadata.pipes.delete({ workspaceId: scene.workspaceId, pipeId: gone })
  const row = { ...(await loaded(metadata, scene.destinationId)), cursorSeq: 9 }
  await metadata.laneStore.save(
    [row],
    [
      {
        destinationId: scene.destinationId,
        pipeId: gone,
        deliveredRecords: 1,
        failedAttempts: 0,
        skippedRecords: 0,
        filteredRecords: 0,
      },
    ],
  )
  t.equal((await loaded(metadata, scene.destinationId)).cursorSeq, 9)
  t.notOk(gone in (await metadata.usage.byPipe(scene.workspaceId, 0)))
})

function startChild(scene: Scene, mode: 'together' | 'apart', fileSizeLimit?: number): ChildProcess {
  const script = new URL('./lane-child.ts', import.meta.url).pathname
  const { options, pipeId, destinationId } = scene
  const command = [
    process.execPath,
    ...childFlags,
    script,
    mode,
    JSON.stringify(options.spec),
    options.sealingKey.toString('hex'),
    pipeId,
    destinationId,
  ]
  const limited = fileSizeLimit === undefined ? '' : `ulimit -f ${fileSizeLimit}; `
  return spawn('bash', ['-c', `${limited}exec "$@"`, 'bash', ...command], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Ends the child by SIGKILL after so many saves were reported done; returns the last one reported. */
async function killAfter(child: ChildProcess, saves: number): Promise<number> {
  let last = 0
  if (child.stdout === null) throw new Error('no output to read')
  for await (const line of createInterface(child.stdout)) {
    last = Number(line)
    if (last >= saves && !child.killed) child.kill('SIGKILL')
  }
  return last
}

t.test('kill -9 between and within saves loses no save that resolved, and never tears one', async (t) => {
  const scene = await laneFile(t)
  let before = 0
  for (const saves of [1, 17, 111]) {
    const child = startChild(scene, 'together')
    const exited = once(child, 'exit')
    const reported = await killAfter(child, before + saves)
    t.strictSame(await exited, [null, 'SIGKILL'])
    const metadata = await openFile(scene.options)
    const row = await loaded(metadata, scene.destinationId)
    t.ok(row.cursorSeq >= reported, `cursor ${row.cursorSeq} is not before the reported ${reported}`)
    t.equal(row.deliveredRecords, row.cursorSeq)
    t.equal(row.filteredRecords, 2 * row.cursorSeq)
    t.equal(await deliveredOf(metadata, scene), row.cursorSeq, 'the roll-up tells the same')
    t.equal(await filteredOf(metadata, scene), row.filteredRecords, 'of what is filtered out too')
    await metadata.close()
    before = row.cursorSeq
  }
})

t.test('negative control: row and counts saved one after the other are torn by the same kill', async (t) => {
  const scene = await laneFile(t)
  const child = startChild(scene, 'apart')
  t.strictSame(await once(child, 'exit'), [null, 'SIGKILL'])
  const metadata = await open(t, scene.options)
  const row = await loaded(metadata, scene.destinationId)
  t.equal(row.cursorSeq, 1)
  t.equal(await deliveredOf(metadata, scene), 0, 'this is what the one transaction is for')
})

const ofFile = { skip: onlySqlite('about the file') }

t.test('an I/O error ends the process, and what was saved before it is there', ofFile, async (t) => {
  const scene = await laneFile(t)
  // A limit on the size of files (in KiB) that the log soon runs into: the write fails with EFBIG, to SQLite an I/O error.
  const child = startChild(scene, 'together', 300)
  const [code, reported, stderr] = await outcome(child)
  t.not(code, 0)
  t.match(stderr, /SQLITE_IOERR_WRITE|disk I\/O error/)
  t.ok(reported > 0)
  const metadata = await open(t, scene.options)
  t.ok((await loaded(metadata, scene.destinationId)).cursorSeq >= reported)
})

async function outcome(child: ChildProcess): Promise<[code: unknown, last: number, stderr: string]> {
  if (child.stdout === null || child.stderr === null) throw new Error('no output to read')
  let stderr = ''
  let last = 0
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  createInterface(child.stdout).on('line', (line) => {
    last = Number(line)
  })
  const [code] = await once(child, 'close')
  return [code, last, stderr]
}

t.test('a delivery process and this one write the same file at the same time', async (t) => {
  const scene = await laneFile(t)
  const metadata = await open(t, scene.options)
  const child = startChild(scene, 'together')
  const exited = once(child, 'exit')
  if (child.stdout === null) throw new Error('no output to read')
  let pipes = 0
  for await (const line of createInterface(child.stdout)) {
    if (child.killed) continue
    await newPipe(metadata, scene.workspaceId, `pipe-${line}`)
    pipes += 1
    if (pipes === 60) child.kill('SIGKILL')
  }
  await exited
  t.equal((await metadata.pipes.list(scene.workspaceId)).length, 61)
  const row = await loaded(metadata, scene.destinationId)
  t.ok(row.cursorSeq >= 60)
  t.equal(await deliveredOf(metadata, scene), row.cursorSeq)
})

t.test('a file that another process keeps locked fails a save as unavailable for now', ofFile, async (t) => {
  const scene = await laneFile(t)
  const metadata = await open(t, scene.options)
  const row = { ...(await loaded(metadata, scene.destinationId)), cursorSeq: 4 }
  const other = new Database(scene.options.file)
  t.teardown(() => other.close())
  other.exec('BEGIN IMMEDIATE')
  await t.rejects(metadata.laneStore.save([row], []), { name: 'LaneStoreUnavailableError' })
  other.exec('ROLLBACK')
  await metadata.laneStore.save([row], [])
  t.equal((await loaded(metadata, scene.destinationId)).cursorSeq, 4, 'control: repeated, it is saved')
})

t.test('a row that fails its checksum says so, and its seqs are not believed', async (t) => {
  const scene = await laneFile(t)
  const metadata = await open(t, scene.options)
  const row = { ...(await loaded(metadata, scene.destinationId)), cursorSeq: 10, deliveredRecords: 9 }
  await metadata.laneStore.save([row], [])
  await rowsOf(scene.options, `UPDATE lanes SET state = replace(state, '"cursorSeq":10', '"cursorSeq":74')`)
  await t.rejects(metadata.laneStore.load(scene.destinationId), {
    name: 'LaneStateDamagedError',
    counters: { deliveredRecords: 9, lastDeliveredMs: null },
  })
  t.equal(await metadata.knownSeq(), 0)
  await metadata.laneStore.save([row], [])
  t.strictSame(await metadata.laneStore.load(scene.destinationId), row, 'whole again once it is saved')
})

t.test('whatever a bad disk makes of a row, it is found to be damaged', async (t) => {
  const scene = await laneFile(t)
  const metadata = await open(t, scene.options)
  const row = { ...(await loaded(metadata, scene.destinationId)), ...{ nextLastSeq: 9, ownerEpoch: 3 } }
  for (const change of [
    `state = replace(state, '"nextLastSeq":9', '"nextLastSeq":8')`,
    `state = replace(state, ',"nextLastSeq":9', '')`,
    `state = replace(state, 'nextLastSeq', 'nextLastSep')`,
    `state = replace(state, '"deliveredRecords":0', '"deliveredRecords":"0"')`,
    `state = '{"cursorSeq":'`,
    `state = 'null'`,
    `state = ''`,
    'owner_epoch = 2',
    'row_check = row_check + 1',
  ]) {
    await metadata.laneStore.save([row], [])
    t.strictSame(await loaded(metadata, scene.destinationId), row)
    await rowsOf(scene.options, `UPDATE lanes SET ${change}`)
    const error = { name: 'LaneStateDamagedError', counters: { deliveredRecords: 0, lastDeliveredMs: null } }
    await t.rejects(metadata.laneStore.load(scene.destinationId), error, change)
    t.match(
      await metadata.laneRecords({ workspaceId: scene.workspaceId, pipeId: scene.pipeId }, [1]),
      [{ state: { cursorSeq: 0 } }],
      'shown as a lane at its beginning',
    )
  }
})
