/** Destinations: stored whole, changed in part, secrets sealed in the file and bound to their place. */
import t from 'tap'
import { destinationTypes, secretKeys, secretKind } from '../../../src/contract/destination-words.ts'
import { ApiError } from '../../../src/contract/errors.ts'
import type { DestinationChange, NewDestination } from '../../../src/metadata/destinations.ts'
import { onlySqlite, refuseRows, rowsOf } from './database.ts'
import {
  column,
  databaseDestination,
  newPipe,
  newWorkspace,
  open,
  openFile,
  pullDestination,
  rawBytes,
  testFile,
} from './fixture.ts'

t.test('a destination is stored whole, with its columns in order and a lane where it starts', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const columns = [
    column('z', { column_type: 'number', nullable: false }),
    column('a', { source_field: 'A key with "quotes" and ünïcode', semantic_role: 'dedupe_id' }),
    column('m', { semantic_role: 'received_at' }),
  ]
  const given = databaseDestination({ columns, startAfterSeq: 2 ** 53 - 1, destination_max_retry_seconds: 7 })
  const destination = await metadata.destinations.create({ workspaceId, pipeId }, given)
  t.match(destination, {
    pipe_id: pipeId,
    destination_type: 'destination_database',
    destination_status: 'active',
    destination_max_retry_seconds: 7,
  })
  t.strictSame(destination.destination_config, given.destination_config)
  t.strictSame(
    Object.keys(destination.destination_config),
    Object.keys(given.destination_config),
    'in the order given',
  )
  t.strictSame(destination.columns, columns)
  t.strictSame(
    await metadata.destinations.get({ workspaceId, pipeId, destinationId: destination.destination_id }),
    destination,
  )
  t.strictSame(
    await metadata.destinations.get({ workspaceId, destinationId: destination.destination_id }),
    destination,
  )
  t.strictSame(await metadata.destinations.list({ workspaceId, pipeId }), [destination])
  t.strictSame(await metadata.laneStore.load(destination.destination_id), {
    destinationId: destination.destination_id,
    cursorSeq: 2 ** 53 - 1,
    cursorMark: null,
    batchFirstSeq: null,
    batchLastSeq: null,
    bisectLastSeq: null,
    nextFirstSeq: null,
    nextLastSeq: null,
    laterRanges: null,
    generation: 0,
    rewoundFromSeq: null,
    recordOffset: 0,
    sizeLimitRecords: null,
    sizeSuccesses: 0,
    attempts: 0,
    firstFailedMs: null,
    nextAttemptMs: null,
    blockingMsgId: null,
    lastError: null,
    lastDeliveredMs: null,
    deliveredRecords: 0,
    filteredRecords: 0,
    skippedMessages: 0,
    droppedMessages: 0,
    deliveredAttempts: 0,
    failedAttempts: 0,
    leaseMsgId: null,
    leaseUntilMs: null,
    ownerEpoch: 0,
  })
})

t.test('a destination takes its name and delivery settings with it from the start', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const settings = {
    destination_name: 'main',
    flush: { max_records: 5, max_bytes: 6, max_seconds: 7 },
    rate: { requests_per_second: 100 },
    concurrency: 3,
  }
  const created = await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination(settings))
  t.match(created, settings)
  const plain = await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination())
  t.match(plain, { destination_name: 'database', flush: null, rate: null, concurrency: null })
})

t.test('a name is taken once per pipe; without one it is the kind', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { pipe_id: otherId } = await newPipe(metadata, workspaceId, 'others')
  const named = (destination_name: string | null) => ({ ...pullDestination(), destination_name })
  const create = (pipe: string, name: string | null) =>
    metadata.destinations.create({ workspaceId, pipeId: pipe }, named(name))
  const main = await create(pipeId, 'main')
  t.match(await create(pipeId, null), { destination_name: 'pull' })
  const second = await create(pipeId, null)
  t.match(second, { destination_name: 'pull-2' })
  await create(pipeId, 'Main')
  await create(otherId, 'main')
  await t.rejects(create(pipeId, 'main'), { code: 'duplicate_destination_name' })
  const rename = metadata.destinations.update(
    { workspaceId, pipeId, destinationId: second.destination_id },
    {
      destination_name: 'main',
    },
  )
  await t.rejects(rename, { code: 'duplicate_destination_name' })
  await metadata.destinations.update(
    { workspaceId, pipeId, destinationId: main.destination_id },
    { destination_name: 'main' },
  )
  const both = await Promise.allSettled([create(otherId, 'one'), create(otherId, 'one')])
  t.equal(both.filter((result) => result.status === 'rejected').length, 1, 'also in a race')
  await metadata.destinations.delete({ workspaceId, pipeId, destinationId: main.destination_id })
  await create(pipeId, 'main')
  const update = (name: string | null) =>
    metadata.destinations.update(
      { workspaceId, pipeId, destinationId: second.destination_id },
      { destination_name: name },
    )
  t.match(await update(null), { destination_name: 'pull-2' }, 'a default that it has, it keeps')
  t.match(await update('second'), { destination_name: 'second' })
  t.match(await create(pipeId, null), { destination_name: 'pull-2' }, 'what is free is taken again')
  t.match(await update(null), { destination_name: 'pull-3' }, 'null is the default')
  const unnamed = await Promise.all([create(otherId, null), create(otherId, null), create(otherId, null)])
  t.strictSame(
    unnamed.map((one) => one.destination_name).sort(),
    ['pull', 'pull-2', 'pull-3'],
    'also in a race',
  )
})

t.test('an empty source_field is no source_field', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const columns = [column('id', { source_field: '' })]
  const created = await metadata.destinations.create(
    { workspaceId, pipeId },
    databaseDestination({ columns }),
  )
  t.strictSame(created.columns, [column('id')])
})

t.test('a destination that cannot be stored whole leaves nothing', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  // A trigger stands in for whatever may fail at the last step, the lane row.
  const allow = await refuseRows(options, 'lanes', 'no lanes today')
  const count = async (table: string) => (await rowsOf(options, `SELECT count(*) AS count FROM ${table}`))[0]
  const given = databaseDestination({ columns: [column('id')] })
  await t.rejects(metadata.destinations.create({ workspaceId, pipeId }, given), /no lanes today/)
  t.strictSame(await count('destinations'), { count: 0 })
  t.strictSame(await count('destination_columns'), { count: 0 })
  await allow()
  t.ok(await metadata.destinations.create({ workspaceId, pipeId }, given))
  t.strictSame(await count('destination_columns'), { count: 1 }, 'control: it counts')
})

t.test('an update changes what it names and moves destination_updated_ts', async (t) => {
  const metadata = await open(t, { ...testFile(t), now: () => 1_700_000_000_000 })
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const columns = [column('a'), column('b')]
  let current = await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination({ columns }))
  const changes: DestinationChange[] = [
    { destination_status: 'blocked' },
    { destination_max_retry_seconds: 5 },
    { destination_config: { host: 'other.example', password: 'new' } },
    { columns: [column('c', { nullable: false }), column('a')] },
    { columns: [] },
    { destination_name: 'Warehouse "ü"' },
    { flush: { max_records: 2 ** 52, max_bytes: 1, max_seconds: 0 } },
    { rate: { requests_per_second: 0.25 } },
    { concurrency: 32 },
    { destination_name: null, flush: null, rate: null, concurrency: null },
  ]
  for (const change of changes) {
    const updated = await metadata.destinations.update(
      { workspaceId, pipeId, destinationId: current.destination_id },
      change,
    )
    t.ok((updated?.destination_updated_ts ?? '') > current.destination_updated_ts)
    // Null is the default, which for a name is its kind.
    const name = change.destination_name === null ? { destination_name: 'database' } : {}
    const expected = {
      ...{ ...current, ...change, ...name },
      destination_updated_ts: updated?.destination_updated_ts,
    }
    t.strictSame(updated, expected)
    t.strictSame(
      await metadata.destinations.get({ workspaceId, destinationId: current.destination_id }),
      updated,
    )
    if (updated) current = updated
  }
  t.strictSame(
    await metadata.destinations.update({ workspaceId, pipeId, destinationId: current.destination_id }, {}),
    current,
  )
})

t.test('deleting a destination removes its columns and its lane', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const gone = await metadata.destinations.create(
    { workspaceId, pipeId },
    databaseDestination({ columns: [column('a')] }),
  )
  const stays = await metadata.destinations.create({ workspaceId, pipeId }, pullDestination())
  t.equal(
    await metadata.destinations.delete({ workspaceId, pipeId, destinationId: gone.destination_id }),
    true,
  )
  t.equal(
    await metadata.destinations.delete({ workspaceId, pipeId, destinationId: gone.destination_id }),
    false,
  )
  t.equal(await metadata.laneStore.load(gone.destination_id), null)
  t.strictSame(await metadata.destinations.list({ workspaceId, pipeId }), [stays])
})

t.test('a destination of a pipe that is not there: pipe_not_found', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const nowhere = '00000000-0000-4000-8000-000000000000'
  await t.rejects(
    metadata.destinations.create({ workspaceId, pipeId: nowhere }, pullDestination()),
    new ApiError('pipe_not_found'),
  )
})

function withSecrets(type: NewDestination['destination_type']): NewDestination {
  const texts = secretKeys(type).filter((key) => secretKind(type, key) === 'text')
  const secrets = texts.map((key) => [key, `open-sesame-${type}-${key}`])
  return {
    ...pullDestination(),
    destination_type: type,
    destination_config: { plain: `plain-${type}`, ...Object.fromEntries(secrets) },
  }
}

const inFiles = { skip: onlySqlite('reads the files') }

t.test('secret values are never in the files in the clear, before or after a change', inFiles, async (t) => {
  const options = testFile(t)
  const metadata = await openFile(options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  for (const type of destinationTypes) {
    const given = withSecrets(type)
    const created = await metadata.destinations.create({ workspaceId, pipeId }, given)
    t.strictSame(created.destination_config, given.destination_config, 'opened again on the way out')
    await metadata.destinations.update(
      { workspaceId, pipeId, destinationId: created.destination_id },
      {
        destination_config: given.destination_config,
      },
    )
  }
  for (const when of ['while the log is there', 'after it is closed']) {
    const bytes = rawBytes(options.dir)
    t.notOk(bytes.includes('open-sesame'), when)
    t.ok(
      bytes.includes('plain-destination_http_endpoint'),
      `control, ${when}: what is not secret can be seen`,
    )
    if (when === 'while the log is there') await metadata.close()
  }
})

t.test('a secret that is null or empty comes back so', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const destination_config = { url: 'https://hook.example', auth_header: null, signing_secret: '' }
  const created = await metadata.destinations.create(
    { workspaceId, pipeId },
    {
      ...pullDestination(),
      destination_type: 'destination_http_endpoint',
      destination_config,
    },
  )
  t.strictSame(created.destination_config, destination_config)
})

t.test('a sealed value opens nowhere but where it was put', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const mine = await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination())
  const theirs = await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination())
  const configOf = async (id: string) => {
    const found = await rowsOf(
      options,
      'SELECT destination_config FROM destinations WHERE destination_id = ?',
      id,
    )
    return String(found[0]?.destination_config)
  }
  const setConfig = (config: string) =>
    rowsOf(
      options,
      'UPDATE destinations SET destination_config = ? WHERE destination_id = ?',
      config,
      mine.destination_id,
    )
  const original = await configOf(mine.destination_id)
  t.not(original, await configOf(theirs.destination_id), 'the same secret is sealed separately for each')

  const isUnreadable = async () =>
    t.match(await metadata.destinations.get({ workspaceId, destinationId: mine.destination_id }), {
      destination_config: { password: '' },
      unreadable_secrets: ['password'],
    })
  await setConfig(await configOf(theirs.destination_id))
  await isUnreadable()
  const stored = JSON.parse(original)
  await setConfig(JSON.stringify({ ...stored, password: `${stored.password.slice(0, -6)}AAAAAA` }))
  await isUnreadable()
  await setConfig(JSON.stringify({ ...stored, password: 'plain text' }))
  await isUnreadable()
  await setConfig(original)
  t.strictSame(
    await metadata.destinations.get({ workspaceId, destinationId: mine.destination_id }),
    mine,
    'control: put back, it opens',
  )
})
