/** The directory in memory, over a real metadata file whose look-ups are counted. */
import t, { type Test } from 'tap'
import { createAuthenticate, openDirectory } from '../../../src/ingest/directory/directory-cache.ts'
import type { DirectorySource, KnownKey } from '../../../src/metadata/directory-source.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { column, databaseDestination, newPipe, newWorkspace, open, testFile } from '../metadata/fixture.ts'

interface Counted {
  source: DirectorySource
  /** Hashes asked for, in order. */
  asked: string[]
  /** How often all keys were read. */
  allAsked: number
  /** When set, a result waits for this promise after it was read. */
  hold: Promise<void> | null
}

/** The source itself, noting what is asked and able to hold a result back on its way. */
function counted(source: DirectorySource): Counted {
  const state: Counted = {
    asked: [],
    allAsked: 0,
    hold: null,
    source: {
      allPipes: () => source.allPipes(),
      async allKeys() {
        state.allAsked += 1
        return await source.allKeys()
      },
      keyById: (apiKeyId) => source.keyById(apiKeyId),
      async pipe(pipeId) {
        const answer = await source.pipe(pipeId)
        await state.hold
        return answer
      },
      async key(hash) {
        state.asked.push(hash)
        const answer = await source.key(hash)
        await state.hold
        return answer
      },
    },
  }
  return state
}

function latch(): { promise: Promise<void>; release: () => void } {
  let release = () => {}
  const promise = new Promise<void>((resolve) => {
    release = resolve
  })
  return { promise, release }
}

async function scene(t: Test): Promise<{ metadata: Metadata; workspaceId: string; counter: Counted }> {
  const metadata = await open(t, testFile(t))
  const workspaceId = await newWorkspace(metadata, 'default')
  return { metadata, workspaceId, counter: counted(metadata.directory) }
}

/** As requests find a key that was made without saying what for. */
const fullKey = (workspaceId: string, apiKeyId: string): KnownKey => ({
  workspaceId,
  by: { kind: 'key', apiKeyId },
  may: { ingest: true, pull: true, read: true, manage: true },
  pipeIds: null,
  expiresMs: Number.POSITIVE_INFINITY,
  isUsed: false,
})

t.test('what is there at start is answered at once, from memory', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const { key } = mintApiKey('ci')
  const { api_key_id: apiKeyId } = await metadata.apiKeys.create(workspaceId, key)
  const pipe = await newPipe(metadata, workspaceId, 'events')
  const directory = await openDirectory(counter.source)
  t.strictSame(directory.key(key.hash), fullKey(workspaceId, apiKeyId))
  t.strictSame(directory.pipe(pipe.pipe_id)?.pipe, pipe)
  t.equal(directory.pipe('00000000-0000-4000-8000-000000000000'), undefined)
  t.strictSame(counter.asked, [])
})

t.test('a pipe is seen as it is once its refresh has resolved: created, changed, deleted', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const directory = await openDirectory(counter.source)
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  t.equal(directory.pipe(pipeId), undefined)
  await directory.refreshPipe(pipeId)
  t.strictSame(directory.pipe(pipeId)?.requiredFields, [])
  const columns = [column('id', { nullable: false })]
  await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination({ columns }))
  await directory.refreshPipe(pipeId.toUpperCase())
  t.strictSame(directory.pipe(pipeId)?.requiredFields, ['id'])
  await metadata.pipes.delete({ workspaceId, pipeId })
  await directory.refreshPipe(pipeId)
  t.equal(directory.pipe(pipeId), undefined)
})

t.test('an older result that arrives later does not undo a newer one', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const directory = await openDirectory(counter.source)
  const gate = latch()
  counter.hold = gate.promise
  const older = directory.refreshPipe(pipeId)
  // The held result has been read once a later read of the same connection is done.
  await metadata.pipes.get({ workspaceId, pipeId })
  counter.hold = null
  await metadata.pipes.update({ workspaceId, pipeId }, { pipe_status: 'paused' })
  await directory.refreshPipe(pipeId)
  gate.release()
  await older
  t.equal(directory.pipe(pipeId)?.pipe.pipe_status, 'paused')
})

t.test('a key that another process made is found with one look-up, shared by all who wait', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const directory = await openDirectory(counter.source)
  const { key } = mintApiKey('elsewhere')
  const { api_key_id: apiKeyId } = await metadata.apiKeys.create(workspaceId, key)
  const answers = await Promise.all(Array.from({ length: 50 }, () => directory.key(key.hash)))
  t.strictSame(answers, Array(50).fill(fullKey(workspaceId, apiKeyId)))
  t.strictSame(counter.asked, [key.hash])
  t.strictSame(directory.key(key.hash), fullKey(workspaceId, apiKeyId), 'from memory from now on')
})

t.test('an unknown key is looked for once a second at most', async (t) => {
  const { counter } = await scene(t)
  let clock = 0
  const directory = await openDirectory(counter.source, { now: () => clock })
  t.equal(await directory.key('unknown'), undefined)
  clock = 999
  for (let again = 0; again < 100; again += 1) t.equal(directory.key('unknown'), undefined)
  t.equal(counter.asked.length, 1)
  clock = 1_000
  t.equal(await directory.key('unknown'), undefined)
  t.equal(counter.asked.length, 2)
})

t.test('no more than 10,000 absent keys are remembered: the oldest are forgotten first', async (t) => {
  const { counter } = await scene(t)
  const directory = await openDirectory(counter.source, { now: () => 0 })
  for (let stranger = 0; stranger <= 10_000; stranger += 1) await directory.key(`stranger-${stranger}`)
  t.equal(counter.asked.length, 10_001)
  await directory.key('stranger-10000')
  await directory.key('stranger-1')
  t.equal(counter.asked.length, 10_001, 'still remembered')
  await directory.key('stranger-0')
  t.equal(counter.asked.length, 10_002, 'forgotten')
})

t.test(
  'a key made here works after refreshKey, also when it was just found absent; no other key is read',
  async (t) => {
    const { metadata, workspaceId, counter } = await scene(t)
    const directory = await openDirectory(counter.source, { now: () => 0 })
    const { key } = mintApiKey('new')
    t.equal(await directory.key(key.hash), undefined)
    const { api_key_id: apiKeyId } = await metadata.apiKeys.create(workspaceId, key)
    t.equal(directory.key(key.hash), undefined, 'control: without the refresh it is remembered as absent')
    await directory.refreshKey(apiKeyId)
    t.match(directory.key(key.hash), { workspaceId })
    t.equal(counter.allAsked, 1, 'at the start alone')
  },
)

t.test('a revoked key is gone once refreshKey has resolved', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const { key } = mintApiKey('old')
  const { api_key_id: apiKeyId } = await metadata.apiKeys.create(workspaceId, key)
  const directory = await openDirectory(counter.source)
  await metadata.apiKeys.revoke({ workspaceId, apiKeyId })
  t.ok(directory.key(key.hash), 'control: until then it is known')
  await directory.refreshKey(apiKeyId)
  t.equal(await directory.key(key.hash), undefined)
})

t.test('a revoked key is gone also when its row is already', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const { key } = mintApiKey('old')
  const { api_key_id: apiKeyId } = await metadata.apiKeys.create(workspaceId, key)
  const directory = await openDirectory(counter.source)
  await metadata.apiKeys.revoke({ workspaceId, apiKeyId })
  await metadata.apiKeys.prune(Number.MAX_SAFE_INTEGER)
  t.ok(directory.key(key.hash), 'control: until then it is known')
  await directory.refreshKey(apiKeyId)
  t.equal(await directory.key(key.hash), undefined)
})

t.test('a look-up under way while its key is revoked does not bring it back', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const directory = await openDirectory(counter.source)
  const { key } = mintApiKey('brief')
  const { api_key_id: apiKeyId } = await metadata.apiKeys.create(workspaceId, key)
  const gate = latch()
  counter.hold = gate.promise
  const underWay = directory.key(key.hash)
  await metadata.apiKeys.revoke({ workspaceId, apiKeyId })
  await directory.refreshKey(apiKeyId)
  counter.hold = null
  gate.release()
  t.equal(await underWay, undefined)
  t.equal(await directory.key(key.hash), undefined)
  t.equal(counter.asked.length, 2, 'the result from before the revocation was looked up again')
})

t.test(
  'a key that expires is unknown from that moment on, and its rights are those it was made with',
  async (t) => {
    const { metadata, workspaceId, counter } = await scene(t)
    const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
    const endMs = Date.now() + 3_600_000
    const { apiKey, key } = mintApiKey('app', { scopes: ['ingest'], pipeIds: [pipeId], expiresMs: endMs })
    await metadata.apiKeys.create(workspaceId, key)
    const directory = await openDirectory(counter.source)
    let nowMs = endMs - 1
    const authenticate = createAuthenticate(directory, () => nowMs)
    const asked = () => authenticate(`Bearer ${apiKey}`)
    t.match(asked(), { may: { ingest: true, pull: false, read: false, manage: false }, expiresMs: endMs })
    t.ok(asked(), 'control: also the second time')
    nowMs = endMs
    t.equal(asked(), undefined)
  },
)

t.test('keys that were used are reported once, also those that were changed meanwhile', async (t) => {
  const { metadata, workspaceId, counter } = await scene(t)
  const minted = [mintApiKey('a'), mintApiKey('b'), mintApiKey('never')]
  const ids: string[] = []
  for (const { key } of minted) ids.push((await metadata.apiKeys.create(workspaceId, key)).api_key_id)
  const directory = await openDirectory(counter.source)
  const authenticate = createAuthenticate(directory)
  t.strictSame(directory.takeUsedKeys(), [])
  for (const { apiKey } of minted.slice(0, 2)) await authenticate(`Bearer ${apiKey}`)
  await directory.refreshKey(ids[0]!)
  t.strictSame(directory.takeUsedKeys().sort(), ids.slice(0, 2).sort())
  t.strictSame(directory.takeUsedKeys(), [])
})
