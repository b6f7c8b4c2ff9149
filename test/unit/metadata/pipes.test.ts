/** Workspaces, API keys, pipes, limits and allowed origins as stored. */
import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import { hashApiKey, mintApiKey } from '../../../src/metadata/key-tokens.ts'
import { rowsOf, type TestDatabase, tablesOf } from './database.ts'
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

/** How many of the attempts were rejected with this code; any other failure fails the test. */
async function refusals(code: string, attempts: Promise<unknown>[]): Promise<number> {
  const outcomes = await Promise.allSettled(attempts)
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
  for (const outcome of refused) {
    if (!(outcome.reason instanceof ApiError) || outcome.reason.code !== code) throw outcome.reason
  }
  return refused.length
}

t.test('a workspace is made with its first key, and its name is taken then', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const { apiKey, key } = mintApiKey('default')
  const { workspaceId, apiKeyId } = await metadata.workspaces.create('default', key)
  t.strictSame(await metadata.workspaces.list(), [{ workspaceId, name: 'default' }])
  const [listed] = await metadata.apiKeys.list(workspaceId)
  t.match(listed, {
    api_key_id: apiKeyId,
    api_key_name: 'default',
    api_key_prefix: apiKey.slice(0, 12),
    api_key_status: 'active',
  })
  t.strictSame(Object.keys(listed ?? {}).sort(), [
    'api_key_created_ts',
    'api_key_expires_ts',
    'api_key_id',
    'api_key_last_used_ts',
    'api_key_name',
    'api_key_pipe_ids',
    'api_key_prefix',
    'api_key_scopes',
    'api_key_status',
  ])
  await t.rejects(metadata.workspaces.create('default', mintApiKey('x').key), {
    code: 'validation_error',
    details: { errors: { workspace_name: 'A workspace with this name already exists.' } },
  })
  t.equal((await metadata.directory.allKeys()).size, 1, 'the key of the refused workspace is not kept')
  for (const name of ['', 'two words', 'x'.repeat(101), 'ä']) {
    await t.rejects(metadata.workspaces.create(name, mintApiKey('x').key), { code: 'validation_error' })
  }
  const second = await open(t, options)
  const race = [metadata, second, metadata, second].map((each) =>
    each.workspaces.create('raced', mintApiKey('x').key),
  )
  t.equal(await refusals('validation_error', race), 3)
})

t.test('API keys: names are unique among active keys; a revoked key stays listed', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const second = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const race = [metadata, second, metadata, second].map((each) =>
    each.apiKeys.create(workspaceId, mintApiKey('ci').key),
  )
  t.equal(await refusals('duplicate_api_key_name', race), 3)
  const [, ci] = await metadata.apiKeys.list(workspaceId)
  const id = ci?.api_key_id ?? ''
  t.equal(await metadata.apiKeys.revoke({ workspaceId, apiKeyId: id }), true)
  t.equal(
    await metadata.apiKeys.revoke({ workspaceId, apiKeyId: id }),
    false,
    'a second time there is no active key',
  )
  const { apiKey, key } = mintApiKey('ci')
  await metadata.apiKeys.create(workspaceId, key)
  t.strictSame(
    (await metadata.apiKeys.list(workspaceId)).map((row) => [row.api_key_name, row.api_key_status]),
    [
      ['first', 'active'],
      ['ci', 'revoked'],
      ['ci', 'active'],
    ],
  )
  t.ok(await metadata.directory.key(hashApiKey(apiKey)))
})

t.test('a pipe keeps every field it was given', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const given = {
    pipe_description: 'Ünïcode — ok',
    pipe_add_ingest_ts: false,
    pipe_add_ingest_ip: true,
    pipe_ingest_ts_field: 'at',
    pipe_ingest_ip_field: 'ip',
    pipe_ingest_geo_country_field: 'c1',
    pipe_ingest_geo_region_field: 'c2',
    pipe_ingest_geo_city_field: 'c3',
    pipe_ingest_geo_postal_field: 'c4',
    pipe_ingest_geo_latitude_field: 'c5',
    pipe_ingest_geo_longitude_field: 'c6',
    pipe_ingest_geo_accuracy_radius_field: 'c7',
    pipe_api_key_required: false,
    pipe_allow_any_browser_origin: true,
  }
  const pipe = await newPipe(metadata, workspaceId, 'events', given)
  t.match(pipe, { ...given, pipe_name: 'events', pipe_status: 'active' })
  t.match(pipe.pipe_created_ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.equal(pipe.pipe_updated_ts, pipe.pipe_created_ts)
  t.strictSame(await metadata.pipes.get({ workspaceId, pipeId: pipe.pipe_id }), pipe)

  for (const [key, value] of Object.entries(given)) {
    const changed = typeof value === 'boolean' ? !value : `${value}2`
    const updated = await metadata.pipes.update({ workspaceId, pipeId: pipe.pipe_id }, { [key]: changed })
    t.match(updated, { [key]: changed })
    t.strictSame(await metadata.pipes.get({ workspaceId, pipeId: pipe.pipe_id }), updated)
  }
  const cleared = await metadata.pipes.update(
    { workspaceId, pipeId: pipe.pipe_id },
    { pipe_ingest_geo_city_field: null },
  )
  t.equal(cleared?.pipe_ingest_geo_city_field, null)
})

t.test(
  'an update moves pipe_updated_ts, also when the clock does not move, and leaves id, name and creation',
  async (t) => {
    const metadata = await open(t, { ...testFile(t), now: () => 1_700_000_000_000 })
    const workspaceId = await newWorkspace(metadata, 'default')
    const pipe = await newPipe(metadata, workspaceId, 'events')
    const paused = await metadata.pipes.update(
      { workspaceId, pipeId: pipe.pipe_id },
      {
        pipe_status: 'paused',
        pipe_name: 'renamed',
        pipe_id: 'other',
        pipe_created_ts: 'never',
      },
    )
    t.strictSame(paused, { ...pipe, pipe_status: 'paused', pipe_updated_ts: '2023-11-14T22:13:20.001Z' })
    t.strictSame(
      await metadata.pipes.update({ workspaceId, pipeId: pipe.pipe_id }, {}),
      paused,
      'nothing given, nothing changed',
    )
  },
)

t.test('a pipe name is unique in its workspace, also between two connections', async (t) => {
  const options = testFile(t)
  const first = await open(t, options)
  const second = await open(t, options)
  const workspaceId = await newWorkspace(first, 'default')
  const race = [first, second, first, second, first].map((each) => newPipe(each, workspaceId, 'events'))
  t.equal(await refusals('duplicate_pipe_name', race), 4)
  t.equal((await first.pipes.list(workspaceId)).length, 1)
})

t.test('lists are in creation order also when the clock runs backwards', async (t) => {
  let clock = 2_000_000_000_000
  const metadata = await open(t, { ...testFile(t), now: () => (clock -= 1_000) })
  const workspaceId = await newWorkspace(metadata, 'default')
  const names = ['zeta', 'alpha', 'mike', 'bravo', 'yankee']
  for (const name of names) {
    await newPipe(metadata, workspaceId, name)
    await metadata.apiKeys.create(workspaceId, mintApiKey(name).key)
    await newWorkspace(metadata, name)
  }
  const [pipe] = await metadata.pipes.list(workspaceId)
  const pipeId = pipe?.pipe_id ?? ''
  const destinationIds: string[] = []
  for (const name of names) {
    await metadata.origins.add({ workspaceId, pipeId }, `https://${name}.example`)
    destinationIds.push(
      (await metadata.destinations.create({ workspaceId, pipeId }, pullDestination())).destination_id,
    )
  }
  t.strictSame(
    (await metadata.pipes.list(workspaceId)).map((row) => row.pipe_name),
    names,
  )
  t.strictSame(
    (await metadata.apiKeys.list(workspaceId)).map((row) => row.api_key_name),
    ['first', ...names],
  )
  t.strictSame(
    (await metadata.workspaces.list()).map((row) => row.name),
    ['default', ...names],
  )
  t.strictSame(
    (await metadata.origins.list({ workspaceId, pipeId })).map((row) => row.origin_domain),
    names.map((name) => `https://${name}.example`),
  )
  t.strictSame(
    (await metadata.destinations.list({ workspaceId, pipeId })).map((row) => row.destination_id),
    destinationIds,
  )
})

t.test('limits are put whole: made, then replaced', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  t.equal(await metadata.limits.get({ workspaceId, pipeId }), null)
  t.strictSame(await metadata.limits.put({ workspaceId, pipeId }, limits), limits)
  t.strictSame(await metadata.limits.get({ workspaceId, pipeId }), limits)
  const without = { ...limits, pl_ingest_max_records_per_request: 9, pl_ingest_max_bytes_per_day: null }
  t.strictSame(await metadata.limits.put({ workspaceId, pipeId }, without), without)
  t.strictSame(await metadata.limits.get({ workspaceId, pipeId }), without)
})

t.test('an origin is allowed once a pipe, whatever its letters, and kept as it was written', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const second = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const race = ['https://App.Example', 'https://APP.example', 'https://APP.EXAMPLE'].map((origin, index) =>
    (index % 2 ? second : metadata).origins.add({ workspaceId, pipeId }, origin),
  )
  t.equal(await refusals('duplicate_origin', race), 2)
  const [kept, ...others] = await metadata.origins.list({ workspaceId, pipeId })
  t.strictSame(kept, await Promise.any(race))
  t.strictSame(others, [])
  const other = await newPipe(metadata, workspaceId, 'other')
  t.ok(
    await metadata.origins.add({ workspaceId, pipeId: other.pipe_id }, 'https://app.example'),
    'another pipe may allow it too',
  )
  t.equal(await metadata.origins.remove({ workspaceId, pipeId }, kept?.pipe_allowed_origin_id ?? ''), true)
  t.equal(await metadata.origins.remove({ workspaceId, pipeId }, kept?.pipe_allowed_origin_id ?? ''), false)
  t.strictSame(await metadata.origins.list({ workspaceId, pipeId }), [])
})

t.test('deleting a pipe removes everything of it and nothing else', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const gone = await fullPipe('gone')
  const stays = await fullPipe('stays')
  t.equal(await metadata.pipes.delete({ workspaceId, pipeId: gone.pipeId }), true)
  t.equal(await metadata.pipes.delete({ workspaceId, pipeId: gone.pipeId }), false)
  t.equal(await metadata.pipes.get({ workspaceId, pipeId: gone.pipeId }), null)
  t.strictSame(await metadata.destinations.list({ workspaceId, pipeId: gone.pipeId }), [])
  t.equal(await metadata.laneStore.load(gone.destinationId), null)
  t.equal(await metadata.laneSource.pipe(gone.pipeId), null)
  t.equal(await metadata.directory.pipe(gone.pipeId), null)
  t.strictSame(Object.keys(await metadata.usage.byPipe(workspaceId, 0)), [stays.pipeId])
  t.strictSame(
    (await metadata.usage.marks()).map((mark) => mark.pipeId),
    [stays.pipeId],
  )
  t.equal((await metadata.laneStore.load(stays.destinationId))?.cursorSeq, 3)
  t.strictSame(
    // Where nodes share a database they also tell each other of it.
    (await rowsNaming(options, gone)).filter((table) => table !== 'changes'),
    ['deleted_pipes', 'audit_log'],
    'a row says that it is deleted, and the audit log what it was',
  )
  t.ok((await rowsNaming(options, stays)).length >= 8, 'the pipe that stays is named by rows of eight tables')
  t.ok(await newPipe(metadata, workspaceId, 'gone'), 'its name is free again')

  async function fullPipe(name: string): Promise<{ pipeId: string; destinationId: string }> {
    const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, name)
    const { destination_id: destinationId } = await metadata.destinations.create(
      { workspaceId, pipeId },
      databaseDestination({ startAfterSeq: 3, columns: [column('id')] }),
    )
    await metadata.origins.add({ workspaceId, pipeId }, 'https://app.example')
    await metadata.limits.put({ workspaceId, pipeId }, limits)
    await metadata.usage.addIngest(
      [{ pipeId, hourMs: 0, requests: 1, records: 1, bytes: 1, rejected: 0, lastIngestMs: 1 }],
      [{ pipeId, messages: 1, records: 1, bytes: 1 }],
    )
    return { pipeId, destinationId }
  }
})

/** Tables with a row that holds one of the ids. */
async function rowsNaming(
  database: TestDatabase,
  ids: { pipeId: string; destinationId: string },
): Promise<string[]> {
  const naming: string[] = []
  for (const table of await tablesOf(database)) {
    const rows = JSON.stringify(await rowsOf(database, `SELECT * FROM "${table}"`))
    if (rows.includes(ids.pipeId) || rows.includes(ids.destinationId)) naming.push(table)
  }
  return naming
}
