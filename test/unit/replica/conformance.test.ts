/** Each property of a store is found to be there, or missing: the negative controls are stores that lack one. */
import t from 'tap'
import { openBucket } from '../../../src/replica/bucket.ts'
import { newBucketCounters } from '../../../src/replica/bucket-counters.ts'
import { checkConformance } from '../../../src/replica/conformance.ts'
import { type StoreBehaviour, startBucketServer } from '../../support/bucket-server.ts'
import { spawnCli } from '../../support/cli.ts'
import { replicaEnv } from '../../support/replica.ts'

const server = await startBucketServer()
t.teardown(() => server.stop())
const { account, endpoint } = server
const target = {
  ...{ ...account, endpoint, prefix: 'pipectl/', forcePathStyle: true },
  ...{ sessionToken: null, sse: null, kmsKeyId: null },
}
const sound = { ...server.behaviour }

async function findings(behaviour: Partial<StoreBehaviour>) {
  Object.assign(server.behaviour, sound, behaviour)
  const counters = newBucketCounters()
  const bucket = openBucket(target, counters)
  const found = await checkConformance({ bucket, counters, onFinding: () => {} })
  bucket.close()
  return new Map(found.map(({ property, result }) => [property, result]))
}

const failing = (found: Map<string, string>, result = 'fail') =>
  [...found].filter(([, one]) => one === result).map(([property]) => property)

t.test('a sound store has every property, and nothing is left in it', async (t) => {
  const found = await findings({})
  t.equal(found.size, 8)
  t.same([...new Set(found.values())], ['ok'])
  t.equal(server.objects.size, 0)
  t.equal(server.openUploads(), 0)
})

t.test('what a store lacks is found', async (t) => {
  t.match(failing(await findings({ conditions: 'ignored' })), [
    'conditional creation',
    'concurrent creations',
  ])
  t.match(failing(await findings({ conditions: 'rejected' })), ['conditional creation'])
  t.same(failing(await findings({ conditions: 'racy' })), ['concurrent creations'])
  t.same(failing(await findings({ listsAfterMs: 60_000 })), ['listing after write'])
  t.match(failing(await findings({ listsUnordered: true })), ['listing after write'])
  t.same(failing(await findings({ losesParts: true })), ['upload in parts', 'read from an offset'])
  t.match(failing(await findings({ showsParts: true })), ['upload in parts', 'interrupted upload'])
  t.same(failing(await findings({ ignoresRanges: true }), 'warn'), ['read from an offset'])
})

t.test('the command prints each property, and its exit code says whether one is missing', async (t) => {
  const env = replicaEnv(server)
  Object.assign(server.behaviour, sound)
  t.match(await spawnCli(['replica', 'check'], { env }), {
    code: 0,
    stdout: /conditional creation +ok[\s\S]+concurrent creations +ok[\s\S]+read from an offset +ok/,
  })
  server.behaviour.conditions = 'ignored'
  const other = await spawnCli(['replica', 'check', `s3://${account.bucket}/other`, '-o', 'json'], { env })
  t.match(other, { code: 1, stderr: /cannot hold a replica: conditional creation/ })
  t.match(JSON.parse(other.stdout), { target: /\/other\//, findings: [{ result: 'fail' }] })
  Object.assign(server.behaviour, sound)
  server.fail({ fault: { status: 403, code: 'AccessDenied' }, times: 100 })
  t.match(await spawnCli(['replica', 'check'], { env }), { code: 1, stderr: /AccessDenied|denied/i })
})
