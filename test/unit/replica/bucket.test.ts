import t from 'tap'
import {
  newBucketCounters,
  openBucket,
  probeBucket,
  type ReplicaTarget,
} from '../../../src/replica/bucket.ts'
import { startBucketServer } from '../../support/bucket-server.ts'

const server = await startBucketServer()
t.teardown(() => server.stop())
t.beforeEach(() => {
  server.recover()
  server.objects.clear()
})

const target: ReplicaTarget = {
  bucket: server.account.bucket,
  prefix: 'shop/one/',
  region: server.account.region,
  endpoint: server.endpoint,
  forcePathStyle: true,
  accessKey: server.account.accessKey,
  secretKey: server.account.secretKey,
  sessionToken: null,
  sse: null,
  kmsKeyId: null,
}
const counters = newBucketCounters()
const bucket = openBucket(target, counters)
t.teardown(() => bucket.close())

async function* stream(bytes: Buffer, chunk = 1_000_000): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk)
}

async function all(chunks: AsyncIterable<Buffer> | null): Promise<Buffer> {
  const list: Buffer[] = []
  for await (const chunk of chunks ?? []) list.push(chunk)
  return Buffer.concat(list)
}

t.test('an object is created once and never replaced', async (t) => {
  t.equal(await bucket.create('log/1', Buffer.from('first')), 'created')
  t.equal(await bucket.create('log/1', Buffer.from('second')), 'exists')
  t.equal(String(await bucket.get('log/1', 100)), 'first')
  t.same([...server.objects.keys()], ['shop/one/log/1'])
})

t.test('an object that does not exist is null, and removing it succeeds', async (t) => {
  t.equal(await bucket.get('log/2', 100), null)
  t.equal(await bucket.stream('log/2', 0), null)
  await bucket.remove('log/2')
})

t.test('the probe accepts the store and leaves nothing behind', async (t) => {
  await probeBucket(bucket)
  t.equal(server.objects.size, 0)
})

t.test('a large object is uploaded in parts and read from any byte', async (t) => {
  const body = Buffer.alloc(20_000_000, 'abcdefg')
  t.same(await bucket.upload('segments/1', stream(body)), { bytes: body.length })
  t.equal(server.counts.part, 3)
  t.equal(server.openUploads(), 0)
  t.ok((await all(await bucket.stream('segments/1', 0))).equals(body))
  t.ok((await all(await bucket.stream('segments/1', 12_345_678))).equals(body.subarray(12_345_678)))
  t.equal((await all(await bucket.stream('segments/1', body.length))).length, 0)
})
