/**
 * The specs that delivery loads: every pipe with its lanes, flush limits, and a revision that changes with any of it.
 */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { resolveConfig } from '../../../src/contract/destination.ts'
import type { LaneSpec } from '../../../src/metadata/lane-state.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import {
  column,
  databaseDestination,
  limits,
  newPipe,
  newWorkspace,
  open,
  pullDestination,
  testFile,
} from './fixture.ts'

t.test('every pipe comes with its lanes, secrets opened; one without destinations has none', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const other = await newWorkspace(metadata, 'other')
  const first = await newPipe(metadata, workspaceId, 'first', { pipe_ingest_ts_field: 'at' })
  const empty = await newPipe(metadata, other, 'empty')
  const columns = [column('id', { nullable: false })]
  const given = databaseDestination({ columns, destination_max_retry_seconds: 9 })
  const database = await metadata.destinations.create({ workspaceId, pipeId: first.pipe_id }, given)
  const pull = await metadata.destinations.create({ workspaceId, pipeId: first.pipe_id }, pullDestination())

  const all = await metadata.laneSource.allPipes()
  t.strictSame(
    all.map((pipe) => [pipe.pipeId, pipe.workspaceId, pipe.lanes.map((lane) => lane.destinationId)]).sort(),
    [
      [first.pipe_id, workspaceId, [database.destination_id, pull.destination_id]],
      [empty.pipe_id, other, []],
    ].sort(),
  )
  const one = await metadata.laneSource.pipe(first.pipe_id)
  t.strictSame(
    one,
    all.find((pipe) => pipe.pipeId === first.pipe_id),
    'one pipe alone looks the same',
  )
  const [lane] = one?.lanes ?? []
  t.strictSame(lane, {
    destinationId: database.destination_id,
    pipeId: first.pipe_id,
    pipeName: 'first',
    workspaceId,
    ...resolveConfig('destination_database', given.destination_config),
    columns,
    timestampField: 'at',
    status: 'active',
    maxRetrySeconds: 9,
    name: 'database',
    flush: { maxRecords: 1_000, maxBytes: 4_194_304, maxSeconds: 0 },
    rate: null,
    transform: null,
    onPermanentError: 'block',
    concurrency: 1,
    pinGeneration: 0,
    revision: lane?.revision,
  })
  t.equal(await metadata.laneSource.pipe(database.destination_id), null)
  t.strictSame((await metadata.laneSource.pipe(empty.pipe_id))?.lanes, [])
  const unknown = Array.from({ length: 1_200 }, () => randomUUID())
  const pipes = await metadata.laneSource.pipesOf([...unknown, database.destination_id.toUpperCase()])
  t.strictSame([...pipes], [[database.destination_id, first.pipe_id]])
})

t.test("flush limits are the destination's own, else the pipe's, else the type's", async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  for (const type of [
    'destination_database',
    'destination_object_store',
    'destination_http_endpoint',
  ] as const) {
    await metadata.destinations.create(
      { workspaceId, pipeId },
      { ...pullDestination(), destination_type: type },
    )
  }
  const flushes = async () => (await metadata.laneSource.pipe(pipeId))?.lanes.map((lane) => lane.flush)
  t.strictSame(await flushes(), [
    { maxRecords: 1_000, maxBytes: 4_194_304, maxSeconds: 0 },
    { maxRecords: 50_000, maxBytes: 33_554_432, maxSeconds: 60 },
    { maxRecords: 1_000, maxBytes: 4_194_304, maxSeconds: 0 },
  ])
  await metadata.limits.put({ workspaceId, pipeId }, limits)
  const fromRow = { maxRecords: 5, maxBytes: 6, maxSeconds: 7 }
  t.strictSame(await flushes(), [fromRow, fromRow, fromRow])
  const [first] = await metadata.destinations.list({ workspaceId, pipeId })
  const flush = { max_records: 50, max_bytes: 60, max_seconds: 0 }
  await metadata.destinations.update(
    { workspaceId, pipeId, destinationId: first?.destination_id ?? '' },
    { flush },
  )
  t.strictSame(
    await flushes(),
    [{ maxRecords: 50, maxBytes: 60, maxSeconds: 0 }, fromRow, fromRow],
    'its own wins',
  )
  await metadata.destinations.update(
    { workspaceId, pipeId, destinationId: first?.destination_id ?? '' },
    { flush: null },
  )
  t.strictSame(await flushes(), [fromRow, fromRow, fromRow])
})

interface Scene {
  metadata: Metadata
  workspaceId: string
  pipeId: string
  destinationId: string
}

/** Each changes one thing that a lane depends on. */
const changes: Record<string, (scene: Scene) => Promise<unknown>> = {
  'the status': (scene) => update(scene, { destination_status: 'blocked' }),
  'the retry window': (scene) => update(scene, { destination_max_retry_seconds: 1 }),
  'a plain key of the config': (scene) =>
    update(scene, { destination_config: { host: 'x', password: 'correct horse' } }),
  'a secret alone': (scene) => update(scene, { destination_config: { host: 'x', password: 'battery' } }),
  columns: (scene) => update(scene, { columns: [column('id')] }),
  'the name': (scene) => update(scene, { destination_name: 'main' }),
  'its own rate': (scene) => update(scene, { rate: { requests_per_second: 0.5 } }),
  'its own concurrency': (scene) => update(scene, { concurrency: 4 }),
  'one flag of a column': (scene) => update(scene, { columns: [column('id', { nullable: false })] }),
  limits: ({ metadata, workspaceId, pipeId }) => metadata.limits.put({ workspaceId, pipeId }, limits),
  "the pipe's timestamp key": ({ metadata, workspaceId, pipeId }) =>
    metadata.pipes.update({ workspaceId, pipeId }, { pipe_ingest_ts_field: 'at' }),
  'a reset of the pin': (scene) => update(scene, { tls_pin: null }),
  'its own flush': (scene) => update(scene, { flush: { max_records: 1, max_bytes: 1, max_seconds: 1 } }),
}

function update(scene: Scene, change: Parameters<Metadata['destinations']['update']>[1]): Promise<unknown> {
  return scene.metadata.destinations.update(
    { workspaceId: scene.workspaceId, pipeId: scene.pipeId, destinationId: scene.destinationId },
    change,
  )
}

t.test('the revision changes with everything a lane depends on, and with nothing else', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { destination_id: destinationId } = await metadata.destinations.create(
    { workspaceId, pipeId },
    databaseDestination(),
  )
  const scene = { metadata, workspaceId, pipeId, destinationId }
  const lane = async (from: Metadata = metadata): Promise<LaneSpec | undefined> =>
    (await from.laneSource.pipe(pipeId))?.lanes.find((each) => each.destinationId === destinationId)

  const seen = new Set([(await lane())?.revision])
  for (const [name, change] of Object.entries(changes)) {
    await change(scene)
    const revision = (await lane())?.revision
    t.notOk(seen.has(revision), name)
    seen.add(revision)
  }
  const last = (await lane())?.revision
  await metadata.pipes.update({ workspaceId, pipeId }, { pipe_description: 'words', pipe_status: 'paused' })
  await metadata.destinations.create({ workspaceId, pipeId }, pullDestination())
  await metadata.origins.add({ workspaceId, pipeId }, 'https://app.example')
  t.equal((await lane())?.revision, last, 'what no lane depends on')
  t.equal((await lane(await open(t, options)))?.revision, last, 'the same for another connection')
  t.match(last, /^[0-9a-f]{32}$/)
})
