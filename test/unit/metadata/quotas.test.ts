/** How many pipes, destinations, keys and origins a workspace may have. */
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import { rowsOf } from './database.ts'
import { newPipe, newWorkspace, open, pullDestination, testFile } from './fixture.ts'

t.test('a full workspace takes no more until something is gone; others go on', async (t) => {
  const quotas = { pipes: 2, destinations: 2, apiKeys: 2, origins: 2 }
  const metadata = await open(t, { ...testFile(t), quotas })
  const [mine, other] = [await newWorkspace(metadata, 'mine'), await newWorkspace(metadata, 'other')]
  const full = (setting: string) => ({
    code: 'workspace_full',
    status: 409,
    message: new RegExp(`limit of 2 .*raise workspace\\.${setting}`),
    details: { limit: `workspace.${setting}`, limit_value: 2 },
  })

  const one = await newPipe(metadata, mine, 'one')
  const two = await newPipe(metadata, mine, 'two')
  await t.rejects(newPipe(metadata, mine, 'three'), full('max_pipes'))
  const theirs = await newPipe(metadata, other, 'one')

  const attach = (workspaceId: string, pipeId: string) =>
    metadata.destinations.create({ workspaceId, pipeId }, pullDestination())
  const first = await attach(mine, one.pipe_id)
  await attach(mine, two.pipe_id)
  await t.rejects(attach(mine, two.pipe_id), full('max_destinations'))
  await attach(other, theirs.pipe_id)
  t.ok(
    await metadata.destinations.delete({
      workspaceId: mine,
      pipeId: one.pipe_id,
      destinationId: first.destination_id,
    }),
  )
  await attach(mine, two.pipe_id)

  await metadata.origins.add({ workspaceId: mine, pipeId: one.pipe_id }, 'https://a.example')
  await metadata.origins.add({ workspaceId: mine, pipeId: two.pipe_id }, 'https://a.example')
  await t.rejects(
    metadata.origins.add({ workspaceId: mine, pipeId: two.pipe_id }, 'https://b.example'),
    full('max_origins'),
  )
  await metadata.origins.add({ workspaceId: other, pipeId: theirs.pipe_id }, 'https://a.example')

  const key = () => mintApiKey(`key ${Math.random()}`).key
  const second = await metadata.apiKeys.create(mine, key())
  await t.rejects(metadata.apiKeys.create(mine, key()), full('max_api_keys'))
  await metadata.apiKeys.create(other, key())
  t.ok(await metadata.apiKeys.revoke({ workspaceId: mine, apiKeyId: second.api_key_id }))
  await metadata.apiKeys.create(mine, key())

  t.ok(await metadata.pipes.delete({ workspaceId: mine, pipeId: one.pipe_id }))
  await newPipe(metadata, mine, 'three')
})

t.test('two at once do not go beyond', async (t) => {
  const quotas = { pipes: 1, destinations: 1, apiKeys: 1, origins: 1 }
  const metadata = await open(t, { ...testFile(t), quotas })
  const workspaceId = await newWorkspace(metadata, 'mine')
  const made = await Promise.allSettled(['a', 'b', 'c'].map((name) => newPipe(metadata, workspaceId, name)))
  t.same(made.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected'])
})

t.test('a workspace makes no more pipes while too many that it deleted are remembered', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const [mine, other] = [await newWorkspace(metadata, 'mine'), await newWorkspace(metadata, 'other')]
  const most = resourceLimits.deletedPipesPerWorkspace
  await rowsOf(
    options,
    `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
    INSERT INTO deleted_pipes (pipe_id, workspace_id, deleted_ms) SELECT 'gone-' || n, ?, 0 FROM n`,
    most - 1,
    mine,
  )
  const last = await newPipe(metadata, mine, 'last')
  await metadata.pipes.delete({ workspaceId: mine, pipeId: last.pipe_id })
  await t.rejects(newPipe(metadata, mine, 'one too many'), {
    code: 'workspace_full',
    details: { limit: 'deleted_pipes_per_workspace', limit_value: most },
  })
  await newPipe(metadata, other, 'of another')
  await metadata.laneSource.forgetDeletedPipes(['gone-1'])
  await newPipe(metadata, mine, 'one too many')
})
