/**
 * The directory with which ingest checks requests: pipes with limits, origins and required fields; active keys by
 * hash.
 */
import t from 'tap'
import { fullRights } from '../../../src/contract/api-key.ts'
import type { ColumnMapping } from '../../../src/contract/destination.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import {
  column,
  databaseDestination,
  limits,
  newPipe,
  newWorkspace,
  open,
  pullDestination,
} from './fixture.ts'

const must = { nullable: false }
const from = { source_field: 'src' }

/** docs/dev/contract.md#required-fields, docs/dev/contract.md#column-rules. The pipe's timestamp key is `at`. */
const cases: [what: string, mapping: ColumnMapping, required: string[]][] = [
  ['nullable with a source', column('c', from), []],
  ['nullable without a source', column('c'), []],
  ['not nullable with a source', column('c', { ...from, ...must }), ['src']],
  ['not nullable without source or role: the key named like the column', column('c', must), ['c']],
  ['dedupe_id with a source, nullable', column('c', { ...from, semantic_role: 'dedupe_id' }), ['src']],
  [
    'dedupe_id with a source, not nullable',
    column('c', { ...from, ...must, semantic_role: 'dedupe_id' }),
    ['src'],
  ],
  ['dedupe_id without a source is generated', column('c', { ...must, semantic_role: 'dedupe_id' }), []],
  ['received_at without a source is generated', column('c', { ...must, semantic_role: 'received_at' }), []],
  [
    'received_at with a source, not nullable',
    column('c', { ...from, ...must, semantic_role: 'received_at' }),
    ['src'],
  ],
  ['received_at with a source, nullable', column('c', { ...from, semantic_role: 'received_at' }), []],
  [
    'record_ts without a source, not nullable: the timestamp key',
    column('c', { ...must, semantic_role: 'record_ts' }),
    ['at'],
  ],
  ['record_ts without a source, nullable', column('c', { semantic_role: 'record_ts' }), []],
  [
    'record_ts with a source, not nullable',
    column('c', { ...from, ...must, semantic_role: 'record_ts' }),
    ['src'],
  ],
]

const metadata = await open(t)
const workspaceId = await newWorkspace(metadata, 'default')

t.test('required fields', async (t) => {
  for (const [index, [what, mapping, required]] of cases.entries()) {
    const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, `case-${index}`, {
      pipe_ingest_ts_field: 'at',
    })
    await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination({ columns: [mapping] }))
    t.strictSame((await metadata.directory.pipe(pipeId))?.requiredFields, required, what)
  }
})

t.test(
  'required fields come from all active database destinations, each once, in column order',
  async (t) => {
    const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'many')
    const create = (columns: ColumnMapping[]) =>
      metadata.destinations.create({ workspaceId, pipeId }, databaseDestination({ columns }))
    const fields = async () => (await metadata.directory.pipe(pipeId))?.requiredFields
    t.strictSame(await fields(), [])
    await create([column('z', must), column('b', { ...must, source_field: 'shared' })])
    const second = await create([column('shared', must), column('a', must)])
    await create([])
    t.strictSame(await fields(), ['z', 'shared', 'a'])
    const { destination_id: secondId } = second
    await metadata.destinations.update(
      { workspaceId, pipeId, destinationId: secondId },
      { destination_status: 'blocked' },
    )
    t.strictSame(await fields(), ['z', 'shared'], 'a blocked destination asks for nothing')
    await metadata.destinations.update(
      { workspaceId, pipeId, destinationId: secondId },
      { destination_status: 'active' },
    )
    t.strictSame(await fields(), ['z', 'shared', 'a'])
    await metadata.destinations.delete({ workspaceId, pipeId, destinationId: secondId })
    t.strictSame(await fields(), ['z', 'shared'])
  },
)

t.test('HTTP and pull destinations ask for no field, an object store for those of its columns', async (t) => {
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'others')
  for (const type of ['destination_http_endpoint', 'destination_pull'] as const) {
    const given = { ...pullDestination(), destination_type: type, columns: [column('id', must)] }
    await metadata.destinations.create({ workspaceId, pipeId }, given)
  }
  t.strictSame((await metadata.directory.pipe(pipeId))?.requiredFields, [])
  const store = { ...pullDestination(), destination_type: 'destination_object_store' as const }
  await metadata.destinations.create({ workspaceId, pipeId }, { ...store, columns: [column('id', must)] })
  await metadata.destinations.create({ workspaceId, pipeId }, store)
  t.strictSame((await metadata.directory.pipe(pipeId))?.requiredFields, ['id'])
})

t.test('a pipe comes with its workspace, limits and origins in lower case; paused ones too', async (t) => {
  const pipe = await newPipe(metadata, workspaceId, 'whole')
  const bare = await metadata.directory.pipe(pipe.pipe_id)
  t.strictSame(bare, {
    workspaceId,
    pipe,
    limits: null,
    allowedOrigins: new Set(),
    source: null,
    requiredFields: [],
  })
  await metadata.limits.put({ workspaceId, pipeId: pipe.pipe_id }, limits)
  await metadata.origins.add({ workspaceId, pipeId: pipe.pipe_id }, 'https://App.Example:8443')
  await metadata.origins.add({ workspaceId, pipeId: pipe.pipe_id }, 'http://localhost:3000')
  const paused = await metadata.pipes.update({ workspaceId, pipeId: pipe.pipe_id }, { pipe_status: 'paused' })
  const whole = await metadata.directory.pipe(pipe.pipe_id.toUpperCase())
  t.strictSame(whole, {
    workspaceId,
    pipe: paused,
    limits,
    allowedOrigins: new Set(['https://app.example:8443', 'http://localhost:3000']),
    source: null,
    requiredFields: [],
  })
  const all = await metadata.directory.allPipes()
  t.strictSame(
    all.find((each) => each.pipe.pipe_id === pipe.pipe_id),
    whole,
    'the load at start tells the same',
  )
  t.equal(all.length, (await metadata.pipes.list(workspaceId)).length)
  for (const each of all) t.strictSame(await metadata.directory.pipe(each.pipe.pipe_id), each)
  t.equal(await metadata.directory.pipe('00000000-0000-4000-8000-000000000000'), null)
})

t.test('keys are found by their hash as long as they are active', async (t) => {
  const { key } = mintApiKey('ci')
  t.equal(await metadata.directory.key(key.hash), null)
  const { api_key_id: apiKeyId } = await metadata.apiKeys.create(workspaceId, key)
  t.strictSame(await metadata.directory.key(key.hash), { apiKeyId, workspaceId, ...fullRights })
  t.strictSame((await metadata.directory.allKeys()).get(key.hash), { apiKeyId, workspaceId, ...fullRights })
  t.equal((await metadata.directory.allKeys()).size, 2)
  await metadata.apiKeys.revoke({ workspaceId, apiKeyId })
  t.equal(await metadata.directory.key(key.hash), null)
  t.notOk((await metadata.directory.allKeys()).has(key.hash))
})
