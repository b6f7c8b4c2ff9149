/** Rows of revoked keys are kept for a while, and not more than so many. */
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { rowsOf } from './database.ts'
import { newWorkspace, open, testFile } from './fixture.ts'

const most = resourceLimits.revokedApiKeysPerWorkspace

async function revokedKey(metadata: Metadata, workspaceId: string, name: string): Promise<void> {
  const { api_key_id } = await metadata.apiKeys.create(workspaceId, mintApiKey(name).key)
  await metadata.apiKeys.revoke({ workspaceId, apiKeyId: api_key_id })
}

const namesOf = async (metadata: Metadata, workspaceId: string) =>
  (await metadata.apiKeys.list(workspaceId)).map((row) => row.api_key_name)

t.test('the oldest row goes with the revocation that is one too many; others keep theirs', async (t) => {
  let clock = 1_000_000
  const options = { ...testFile(t), now: () => clock }
  const metadata = await open(t, options)
  const [mine, other] = [await newWorkspace(metadata, 'mine'), await newWorkspace(metadata, 'other')]
  await revokedKey(metadata, other, 'theirs')
  clock += 1
  await revokedKey(metadata, mine, 'oldest')
  clock += 1
  // As many as are kept, less the one above: written at once, each of them would be two transactions.
  await rowsOf(
    options,
    `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
    INSERT INTO api_keys (api_key_id, workspace_id, api_key_name, api_key_prefix, api_key_hash, api_key_status,
      api_key_created_ms, api_key_revoked_ms, creation_order)
    SELECT 'id-' || n, ?, 'many', '', 'hash-' || n, 'revoked', 0, CAST(? AS bigint), n + 2 FROM n`,
    ...[most - 1, mine, clock],
  )
  const before = await namesOf(metadata, mine)
  t.equal(before.length, most + 1, 'all of them and the active one')
  t.ok(before.includes('oldest'), 'control: as long as there is room')

  clock += 1
  await revokedKey(metadata, mine, 'newest')
  const after = await namesOf(metadata, mine)
  t.equal(after.length, most + 1)
  t.notOk(after.includes('oldest'))
  t.ok(after.includes('newest'))
  t.ok(after.includes('first'), 'an active one is no revoked one')
  t.strictSame(await namesOf(metadata, other), ['first', 'theirs'])
})

t.test('prune removes what was revoked before, whenever it was made', async (t) => {
  let clock = 1_000
  const metadata = await open(t, { ...testFile(t), now: () => clock })
  const mine = await newWorkspace(metadata, 'mine')
  await revokedKey(metadata, mine, 'long ago')
  const late = await metadata.apiKeys.create(mine, mintApiKey('lately').key)
  clock = 5_000
  await metadata.apiKeys.revoke({ workspaceId: mine, apiKeyId: late.api_key_id })
  await metadata.apiKeys.prune(5_000)
  t.strictSame(await namesOf(metadata, mine), ['first', 'lately'])
  t.equal(
    await metadata.apiKeys.revoke({ workspaceId: mine, apiKeyId: late.api_key_id }),
    false,
    'still revoked',
  )
})
