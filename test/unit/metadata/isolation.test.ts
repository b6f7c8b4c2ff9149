/**
 * Resources of another workspace do not exist: every method that takes a workspace is called with the ids of another
 * workspace's resources, and these are compared before and after.
 */
import t, { type Test } from 'tap'
import { fullRights } from '../../../src/contract/api-key.ts'
import { ApiError } from '../../../src/contract/errors.ts'
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import {
  databaseDestination,
  limits,
  newPipe,
  newWorkspace,
  open,
  ownerOf,
  pullDestination,
} from './fixture.ts'

const alertSettings = {
  url: 'https://owner.example/',
  secret: null,
  format: 'standard',
  events: null,
} as const
const metadata = await open(t)
const owner = await newWorkspace(metadata, 'owner')
const stranger = await newWorkspace(metadata, 'stranger')
const { pipe_id: pipeId } = await newPipe(metadata, owner, 'events')
const { destination_id: destinationId } = await metadata.destinations.create(
  { workspaceId: owner, pipeId },
  databaseDestination(),
)
const origin = await metadata.origins.add({ workspaceId: owner, pipeId }, 'https://app.example')
const key = await metadata.apiKeys.create(owner, mintApiKey('second').key)
await metadata.limits.put({ workspaceId: owner, pipeId }, limits)
await metadata.alerts.put(owner, () => alertSettings)
await metadata.usage.addIngest(
  [
    {
      pipeId,
      hourMs: 0,
      requests: 1,
      records: 2,
      bytes: 3,
      rejected: 0,
      rejectedHooks: { wrong_signature: 1 },
      lastIngestMs: 5,
    },
  ],
  [],
)

await metadata.parkedStore.park(ownerOf(destinationId), [
  {
    ...{ reason: 'permanent_error', code: '22003', message: 'too large', column: null, value: null },
    ...{
      msgId: '0198b2a0-0000-7000-8000-000000000001',
      seq: 1,
      receivedMs: 5,
      recordIndex: 0,
      firstIndex: 0,
    },
    ...{ recordCount: 1, body: Buffer.from('{}'), attempts: 1, generation: 0 },
  },
])
const pipeParkedId = '0198b2a0-0000-7000-8000-00000000000a'
await metadata.pipeParked.park(
  [
    {
      ...{ workspaceId: owner, pipeId, msgId: '0198b2a0-0000-7000-8000-000000000002', receivedMs: 5 },
      ...{ isKeyed: false, enrichment: { keys: [], text: '' } },
      records: [
        { parkedId: pipeParkedId, recordIndex: 0, text: '{"n":1}', faults: [{ path: '/n', message: 'no' }] },
      ],
    },
  ],
  1024 ** 3,
)
const everyPipeParked = { limit: 10, after: null, errorPath: null }
const allPipeParked = { ids: null, errorPath: null }
await metadata.driftStore.save(ownerOf(destinationId), {
  mappingHash: 'a',
  state: { since_ms: 0, records: 1, keys: [], other_keys: 0, unfilled: [] },
})
const wholeList = { limit: 10, after: null, errorCode: null, reason: null }
const { parked: ownersParked } = await metadata.parked.list({ workspaceId: owner, destinationId }, wholeList)
const parkedId = ownersParked[0]?.parked_id ?? ''
const user = await metadata.users.create(owner, {
  ...{ email: 'owner@example.com', role: 'admin', passwordHash: 'hash' },
})
const second = await metadata.users.create(owner, {
  ...{ email: 'second@example.com', role: 'viewer', passwordHash: 'hash' },
})
const link = { role: 'viewer', hash: 'a'.repeat(64), expiresMs: Date.now() + 3_600_000 } as const
await metadata.users.createSetupLink(owner, link)
const [signedIn] = await metadata.users.accountsOf('owner@example.com')
if (signedIn === undefined) throw new Error('no such user')
await metadata.sessions.begin(signedIn, 'b'.repeat(64))

async function everythingOf(workspaceId: string): Promise<unknown> {
  return {
    pipes: await metadata.pipes.list(workspaceId),
    pipe: await metadata.pipes.get({ workspaceId, pipeId }),
    destinations: await metadata.destinations.list({ workspaceId, pipeId }),
    destination: await metadata.destinations.get({ workspaceId, pipeId, destinationId }),
    found: await metadata.destinations.get({ workspaceId, destinationId }),
    limits: await metadata.limits.get({ workspaceId, pipeId }),
    origins: await metadata.origins.list({ workspaceId, pipeId }),
    usage: await metadata.usage.byPipe(workspaceId, 0),
    hours: [...(await metadata.usage.byHour(workspaceId, null, 0, 0))],
    rejectedHooks: await metadata.usage.rejectedHooks({ workspaceId, pipeId }, 0, Number.MAX_SAFE_INTEGER),
    hoursOfLane: [
      ...(await metadata.usage.ofLane({ workspaceId, destinationId }, 0, Number.MAX_SAFE_INTEGER)),
    ],
    drift: await metadata.drift({ workspaceId, destinationId }),
    parked: await metadata.parked.list({ workspaceId, destinationId }, wholeList),
    parkedOne: await metadata.parked.get({ workspaceId, destinationId }, parkedId),
    pipeParked: await metadata.pipeParked.list({ workspaceId, pipeId }, everyPipeParked),
    pipeParkedOne: await metadata.pipeParked.get({ workspaceId, pipeId }, pipeParkedId),
    pipeParkedCount: await metadata.pipeParked.count({ workspaceId, pipeId }),
    pipeParkedTexts: await metadata.pipeParked.texts({ workspaceId, pipeId }, allPipeParked, null),
    users: await metadata.users.list(workspaceId),
    overview: await metadata.overview(workspaceId, 0),
    laneRecords: await metadata.laneRecords({ workspaceId, pipeId }, [1]),
    runsOfKind: await metadata.runsOfKind(
      { workspaceId, pipeId },
      { destinationId, kind: 'parked', beforeSeq: Number.MAX_SAFE_INTEGER },
    ),
    alerts: await metadata.alerts.get(workspaceId),
    hoursOfPipe: [...(await metadata.usage.byHour(workspaceId, [pipeId], 0, 0))],
  }
}

const notFound = new ApiError('pipe_not_found')

/** Each method that takes a workspace, as the stranger, with the owner's ids; and what it must answer. */
const attempts: Record<string, (t: Test) => Promise<void>> = {
  'reads find nothing': async (t) => {
    t.strictSame(await everythingOf(stranger), {
      pipes: [],
      pipe: null,
      destinations: [],
      destination: null,
      found: null,
      limits: null,
      origins: [],
      usage: {},
      hours: [],
      rejectedHooks: {},
      hoursOfLane: [],
      drift: null,
      parked: { parked: [], next: null },
      parkedOne: null,
      pipeParked: { parked: [], next: null },
      pipeParkedOne: null,
      pipeParkedCount: 0,
      pipeParkedTexts: [],
      users: [],
      overview: [],
      laneRecords: [],
      runsOfKind: { ranges: [], fromSeq: 1 },
      alerts: null,
      hoursOfPipe: [],
    })
    t.strictSame(
      (await metadata.apiKeys.list(stranger)).map((row) => row.api_key_name),
      ['first'],
    )
  },
  'pipes.update': async (t) =>
    void t.equal(
      await metadata.pipes.update({ workspaceId: stranger, pipeId }, { pipe_description: 'taken' }),
      null,
    ),
  'pipes.delete': async (t) =>
    void t.equal(await metadata.pipes.delete({ workspaceId: stranger, pipeId }), false),
  'destinations.create': async (t) =>
    void (await t.rejects(
      metadata.destinations.create({ workspaceId: stranger, pipeId }, pullDestination()),
      notFound,
    )),
  'destinations.update': async (t) =>
    void t.equal(
      await metadata.destinations.update(
        { workspaceId: stranger, pipeId, destinationId },
        { destination_status: 'blocked' },
      ),
      null,
    ),
  'destinations.delete': async (t) =>
    void t.equal(await metadata.destinations.delete({ workspaceId: stranger, pipeId, destinationId }), false),
  'parked.replay': async (t) =>
    void t.same(await metadata.parked.replay({ workspaceId: stranger, destinationId }, parkedId, null), {
      kind: 'not_found',
    }),
  'parked.replayMany': async (t) =>
    void t.equal(
      await metadata.parked.replayMany(
        { workspaceId: stranger, destinationId },
        { ids: null, errorCode: null, reason: null },
      ),
      0,
    ),
  'parked.discardMany': async (t) =>
    void t.equal(
      await metadata.parked.discardMany(
        { workspaceId: stranger, destinationId },
        { ids: null, errorCode: null, reason: null },
      ),
      0,
    ),
  'parked.discard': async (t) =>
    void t.equal(
      await metadata.parked.discard({ workspaceId: stranger, destinationId }, parkedId),
      'not_found',
    ),
  'pipeParked.edit': async (t) => {
    const changed = { text: '{}', faults: [] }
    const result = await metadata.pipeParked.edit({ workspaceId: stranger, pipeId }, pipeParkedId, changed)
    t.equal(result, 'not_found')
  },
  'pipeParked.beginReplays': async (t) => {
    const row = await metadata.pipeParked.get({ workspaceId: owner, pipeId }, pipeParkedId)
    const begun = await metadata.pipeParked.beginReplays({ workspaceId: stranger, pipeId }, [row!.text])
    t.equal(begun.size, 0)
  },
  'pipeParked.releaseReplays': async () =>
    await metadata.pipeParked.releaseReplays({ workspaceId: stranger, pipeId }, [pipeParkedId]),
  'pipeParked.endReplays': async (t) => {
    t.equal(await metadata.pipeParked.endReplays({ workspaceId: stranger, pipeId }, [pipeParkedId]), 0)
  },
  'pipeParked.noteFaults': async () =>
    await metadata.pipeParked.noteFaults({ workspaceId: stranger, pipeId }, pipeParkedId, []),
  'pipeParked.discard': async (t) => {
    const result = await metadata.pipeParked.discard({ workspaceId: stranger, pipeId }, pipeParkedId)
    t.equal(result, 'not_found')
  },
  'pipeParked.discardMany': async (t) => {
    t.equal(await metadata.pipeParked.discardMany({ workspaceId: stranger, pipeId }, allPipeParked), 0)
  },
  'limits.delete': async (t) => void t.notOk(await metadata.limits.delete({ workspaceId: stranger, pipeId })),
  'limits.put': async (t) =>
    void (await t.rejects(metadata.limits.put({ workspaceId: stranger, pipeId }, limits), notFound)),
  'origins.add': async (t) =>
    void (await t.rejects(
      metadata.origins.add({ workspaceId: stranger, pipeId }, 'https://evil.example'),
      notFound,
    )),
  'origins.remove': async (t) =>
    void t.equal(
      await metadata.origins.remove({ workspaceId: stranger, pipeId }, origin.pipe_allowed_origin_id),
      false,
    ),
  'apiKeys.rotate': async (t) => {
    const decide = () => mintApiKey('taken over').key
    t.equal(
      await metadata.apiKeys.rotate({ workspaceId: stranger, apiKeyId: key.api_key_id }, null, decide),
      null,
    )
    t.strictSame((await metadata.apiKeys.list(stranger)).length, 1, 'nothing was made either')
  },
  'apiKeys.forget': async (t) => {
    const gone = await metadata.apiKeys.create(owner, mintApiKey('gone').key)
    await metadata.apiKeys.revoke({ workspaceId: owner, apiKeyId: gone.api_key_id })
    t.equal(await metadata.apiKeys.forget(stranger, [gone.api_key_id]), 0)
    t.equal(await metadata.apiKeys.forget(owner, [gone.api_key_id]), 1, 'control')
  },
  'apiKeys.create for a pipe of the owner': async (t) => {
    const { key: foreign } = mintApiKey('foreign', { ...fullRights, pipeIds: [pipeId] })
    await t.rejects(metadata.apiKeys.create(stranger, foreign), { code: 'validation_error' })
  },
  'alerts.delete': async (t) => void t.equal(await metadata.alerts.delete(stranger), false),
  'alerts.put': async (t) => {
    const { url } = await metadata.alerts.put(stranger, (current) => {
      t.equal(current, null)
      return { ...alertSettings, url: 'https://stranger.example/' }
    })
    t.equal(url, 'https://stranger.example/')
    await metadata.alerts.delete(stranger)
  },
  'users.update': async (t) =>
    void t.equal(
      await metadata.users.update({ workspaceId: stranger, userId: second.user_id }, { role: 'admin' }),
      null,
    ),
  'users.delete': async (t) =>
    void t.equal(await metadata.users.delete({ workspaceId: stranger, userId: second.user_id }), false),
  'users.create': async (t) => {
    const theirs = { email: 'OWNER@example.com', role: 'admin', passwordHash: 'other' } as const
    t.equal((await metadata.users.create(stranger, theirs)).user_email, 'owner@example.com')
  },
  'apiKeys.revoke': async (t) =>
    void t.equal(await metadata.apiKeys.revoke({ workspaceId: stranger, apiKeyId: key.api_key_id }), false),
}

for (const [name, attempt] of Object.entries(attempts)) {
  t.test(`another workspace: ${name}`, async (t) => {
    const before = JSON.stringify(await everythingOf(owner))
    const keysBefore = await metadata.apiKeys.list(owner)
    await attempt(t)
    t.equal(JSON.stringify(await everythingOf(owner)), before, "the owner's resources are as they were")
    t.strictSame(await metadata.apiKeys.list(owner), keysBefore)
  })
}

t.test('a session and a setup link are of the workspace they were made in', async (t) => {
  const session = await metadata.sessions.find('b'.repeat(64))
  t.match(session, { workspaceId: owner, user: { user_id: user.user_id } })
  await metadata.users.createSetupLink(stranger, { ...link, hash: 'c'.repeat(64) })
  const made = await metadata.users.redeemSetupLink('c'.repeat(64), {
    ...{ email: 'new@example.com', passwordHash: 'hash' },
  })
  t.equal(made?.workspaceId, stranger)
  t.strictSame(
    (await metadata.users.list(owner)).map((one) => one.user_email),
    ['owner@example.com', 'second@example.com'],
  )
  t.ok(await metadata.users.hasSetupLink(link.hash), 'the link of the other workspace is still there')
  t.equal(await metadata.users.delete({ workspaceId: owner, userId: made?.user.user_id ?? '' }), false)
  t.ok(await metadata.sessions.find('b'.repeat(64)), 'and so is its session')
})

t.test('the list of attempts covers every method that takes a workspace', async (t) => {
  const reads = [
    ...['list', 'get', 'find', 'byPipe', 'byHour', 'ofLane', 'rejectedHooks', 'mismatches', 'count', 'texts'],
  ]
  const own = [
    'pipes.create',
    'apiKeys.create',
    'workspaces.create',
    'usage.addIngest',
    'usage.countUpTo',
    'usage.marks',
  ]
  const other = [
    'apiKeys.prune',
    'apiKeys.used',
    'usage.ingestedSince',
    'usage.prune',
    'parked.prune',
    'pipeParked.park',
    'pipeParked.unpark',
    'pipeParked.prune',
    'pipeParked.counts',
  ]
  const people = ['users.accountsOf', 'users.redeemSetupLink', 'users.createSetupLink', 'users.hasSetupLink']
  const nouns = [
    ...([
      'workspaces',
      'parked',
      'pipeParked',
      'pipes',
      'destinations',
      'limits',
      'origins',
      'apiKeys',
      'usage',
      'users',
      'alerts',
    ] as const),
  ]
  const methods = nouns.flatMap((noun: (typeof nouns)[number]) =>
    Object.keys(metadata[noun] satisfies Metadata[typeof noun]).map((method) => `${noun}.${method}`),
  )
  const uncovered = methods.filter(
    (method) =>
      !(
        method in attempts ||
        own.includes(method) ||
        other.includes(method) ||
        people.includes(method) ||
        reads.includes(method.split('.')[1] ?? '')
      ),
  )
  t.strictSame(uncovered, [])
})

t.test('a destination is not reached through another pipe of its own workspace', async (t) => {
  const other = await newPipe(metadata, owner, 'other')
  t.equal(await metadata.destinations.get({ workspaceId: owner, pipeId: other.pipe_id, destinationId }), null)
  t.equal(
    await metadata.destinations.update({ workspaceId: owner, pipeId: other.pipe_id, destinationId }, {}),
    null,
  )
  t.equal(
    await metadata.destinations.delete({ workspaceId: owner, pipeId: other.pipe_id, destinationId }),
    false,
  )
  t.equal(
    await metadata.origins.remove(
      { workspaceId: owner, pipeId: other.pipe_id },
      origin.pipe_allowed_origin_id,
    ),
    false,
  )
})

t.test('two workspaces may use the same names', async (t) => {
  t.equal((await newPipe(metadata, stranger, 'events')).pipe_name, 'events')
  t.equal((await metadata.apiKeys.create(stranger, mintApiKey('second').key)).api_key_name, 'second')
})

t.test('ids are the same in either case of letters', async (t) => {
  t.ok(await metadata.pipes.get({ workspaceId: owner.toUpperCase(), pipeId: pipeId.toUpperCase() }))
  t.ok(await metadata.destinations.get({ workspaceId: owner, destinationId: destinationId.toUpperCase() }))
})
