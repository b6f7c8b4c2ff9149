/**
 * A COMMIT without an answer: what was asked is stored once, also where it is asked again. A proxy loses the answer, or COMMIT
 * itself; servers crash while lanes save.
 */
import { Kysely } from 'kysely'
import t, { type Test } from 'tap'
import { postgresDialect } from '../../../src/cluster/postgresql/dialect.ts'
import { PostgresDriver } from '../../../src/cluster/postgresql/driver.ts'
import { SessionPool } from '../../../src/cluster/postgresql/pool.ts'
import { Session } from '../../../src/cluster/postgresql/session.ts'
import { parsePostgresUrl } from '../../../src/cluster/postgresql/url.ts'
import type { LaneState } from '../../../src/metadata/lane-state.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import type { Tables } from '../../../src/metadata/tables.ts'
import { usage } from '../../../src/metadata/usage.ts'
import { startPostgres } from '../../support/postgres.ts'
import { startProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'
import { keepOn, serverDatabase } from './database.ts'
import { newPipe, newWorkspace, open, pullDestination, testFile } from './fixture.ts'

const server = await startPostgres()
t.teardown(() => server.stop())
keepOn(server)

async function scene(t: Test) {
  const proxy = await startProxy(server)
  t.teardown(() => proxy.stop())
  const database = serverDatabase(server)
  const direct = { ...testFile(t), ...database }
  const through = { ...direct, spec: viaPort(direct.spec, proxy.port) }
  const metadata = await open(t, through)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const made = await metadata.destinations.create({ workspaceId, pipeId }, pullDestination())
  const row = (await metadata.laneStore.load(made.destination_id))!
  const counts = {
    ...{ destinationId: row.destinationId, pipeId },
    ...{ deliveredRecords: 1, failedAttempts: 0, skippedRecords: 0, filteredRecords: 0 },
  }
  const delivered = async () => (await metadata.usage.byPipe(workspaceId, 0))[pipeId]?.delivered_records ?? 0
  return { proxy, through, metadata, workspaceId, pipeId, row, counts, delivered }
}

function viaPort(spec: { kind: string }, port: number) {
  if (!('url' in spec)) throw new Error('not on a server')
  const url = new URL(String(spec.url))
  url.port = String(port)
  return { kind: 'postgresql' as const, url: url.href }
}

/** `COMMIT` as the server says it, and as we do. */
const lost = {
  answer: { kind: 'cut_at_reply', text: 'COMMIT\0', times: 1 },
  question: { kind: 'cut_at_request', text: 'commit\0', times: 1 },
} as const

for (const [name, mode] of Object.entries(lost)) {
  t.test(`the ${name} of a commit is lost: nobody notices, and nothing is added twice`, async (t) => {
    const { proxy, metadata, workspaceId, pipeId, row, counts, delivered } = await scene(t)
    proxy.setMode(mode)
    await metadata.laneStore.save([{ ...row, cursorSeq: 1 }], [counts])
    t.equal(proxy.cuts(), 1, 'control')
    t.equal(await delivered(), 1)
    proxy.setMode(mode)
    const hour = { pipeId, hourMs: 0, requests: 1, records: 5, bytes: 50, rejected: 0, lastIngestMs: 1 }
    await metadata.usage.addIngest([hour], [])
    t.equal((await metadata.usage.byPipe(workspaceId, 0))[pipeId]?.ingest_records, 5)
    proxy.setMode(mode)
    const pipe = await newPipe(metadata, workspaceId, 'another')
    t.strictSame(await metadata.pipes.get({ workspaceId, pipeId: pipe.pipe_id }), pipe)
    t.equal(proxy.cuts(), 3, 'control: each of them was cut')
  })
}

t.test(
  'negative control: without a writer a lost answer is unavailable, and asked again is added twice',
  async (t) => {
    const { proxy, metadata, through, workspaceId, pipeId } = await scene(t)
    const { spec } = through
    const target = parsePostgresUrl(spec.url)
    const pool = new SessionPool(() => Session.open(target, { statementMs: 10_000, lockMs: 5_000 }), 1)
    const db = new Kysely<Tables>({ dialect: postgresDialect(new PostgresDriver(pool, null, target.label)) })
    t.teardown(() => db.destroy())
    const { addIngest } = usage(db)
    const hour = { pipeId, hourMs: 0, requests: 1, records: 5, bytes: 50, rejected: 0, lastIngestMs: 1 }
    proxy.setMode(lost.answer)
    await t.rejects(addIngest([hour], []), { name: 'StorageUnavailableError' })
    await addIngest([hour], [])
    t.equal((await metadata.usage.byPipe(workspaceId, 0))[pipeId]?.ingest_records, 10)
  },
)

t.test('nobody can say for a long time: repeated, it is stored once', { timeout: 120_000 }, async (t) => {
  const { proxy, metadata, workspaceId, pipeId, row, counts, delivered } = await scene(t)
  proxy.setMode({ ...lost.answer, after: { kind: 'reset' } })
  const moved: LaneState = { ...row, cursorSeq: 1 }
  const saving = metadata.laneStore.save([moved], [counts])
  await t.rejects(saving, { name: 'LaneStoreUnavailableError', cause: { name: 'UnknownOutcomeError' } })
  await t.rejects(metadata.laneStore.save([moved], [counts]), { name: 'LaneStoreUnavailableError' })
  proxy.setMode({ kind: 'pass' })
  await saveUntilStored(metadata, moved, counts)
  t.equal(await delivered(), 1)
  t.equal((await metadata.laneStore.load(row.destinationId))?.cursorSeq, 1)
  await metadata.laneStore.save([{ ...moved, cursorSeq: 2 }], [counts])
  t.equal(await delivered(), 2, 'control: the next one counts')
  t.equal((await metadata.pipes.list(workspaceId))[0]?.pipe_id, pipeId)
})

async function saveUntilStored(metadata: Metadata, row: LaneState, counts: object): Promise<void> {
  await until('the save is stored', async () => {
    try {
      await metadata.laneStore.save([row], [counts as never])
      return true
    } catch (error) {
      if ((error as Error).name !== 'LaneStoreUnavailableError') throw error
      return false
    }
  })
}

t.test(
  'counts of ingest that may be stored are taken out of those that grew since',
  { timeout: 120_000 },
  async (t) => {
    const { proxy, metadata, workspaceId, pipeId } = await scene(t)
    const hour = { pipeId, hourMs: 0, requests: 1, records: 5, bytes: 50, rejected: 0, lastIngestMs: 1 }
    proxy.setMode({ ...lost.answer, after: { kind: 'reset' } })
    await t.rejects(metadata.usage.addIngest([hour], []), { name: 'UnknownOutcomeError' })
    proxy.setMode({ kind: 'pass' })
    const grown = { ...hour, requests: 3, records: 15, bytes: 150 }
    await until('the counts are stored', () =>
      metadata.usage.addIngest([grown], []).then(
        () => true,
        () => false,
      ),
    )
    t.match((await metadata.usage.byPipe(workspaceId, 0))[pipeId], { ingest_requests: 3, ingest_records: 15 })
  },
)

t.test(
  'the server crashes twice while lanes save and ingest counts: sums are exact',
  { timeout: 180_000 },
  async (t) => {
    const { metadata, workspaceId, pipeId, row, counts, delivered } = await scene(t)
    let saves = 0
    let adds = 0
    let isOver = false
    const lanes = async () => {
      for (let cursorSeq = 1; !isOver; cursorSeq += 1) {
        await saveUntilStored(metadata, { ...row, cursorSeq, deliveredRecords: cursorSeq }, counts)
        saves = cursorSeq
      }
    }
    const ingest = async () => {
      let kept = 0
      while (!isOver || kept > 0) {
        kept += 1
        const hour = { hourMs: 0, requests: kept, records: kept, bytes: 0, rejected: 0, lastIngestMs: 1 }
        try {
          await metadata.usage.addIngest([{ pipeId, ...hour }], [])
          adds += kept
          kept = 0
        } catch (error) {
          if (!(error instanceof Error) || !/Unavailable|UnknownOutcome|WriteConflict/.test(error.name))
            throw error
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
      }
    }
    const running = Promise.all([lanes(), ingest()])
    for (const round of [1, 2]) {
      await until('lanes save', () => saves > round * 50)
      await server.halt()
      await server.start()
    }
    const before = saves
    await until('lanes save again', () => saves > before + 50)
    isOver = true
    await running
    t.match(await metadata.laneStore.load(row.destinationId), { cursorSeq: saves, deliveredRecords: saves })
    t.equal(await delivered(), saves)
    t.equal((await metadata.usage.byPipe(workspaceId, 0))[pipeId]?.ingest_records, adds)
  },
)
