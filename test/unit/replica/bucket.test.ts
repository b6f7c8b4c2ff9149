import t from 'tap'
import { openBucket, probeBucket, type ReplicaTarget } from '../../../src/replica/bucket.ts'
import { newBucketCounters } from '../../../src/replica/bucket-counters.ts'
import { type StoredObject, startBucketServer } from '../../support/bucket-server.ts'
import { selfSignedCertificate } from '../../support/tls.ts'

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

t.test('over HTTPS the body is not signed, and it is over HTTP', async (t) => {
  const secure = await startBucketServer({ tls: selfSignedCertificate() })
  t.teardown(() => secure.stop())
  const trusted = process.env.NODE_TLS_REJECT_UNAUTHORIZED
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => {
    if (trusted === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = trusted
  })
  const other = openBucket({ ...target, endpoint: secure.endpoint })
  t.teardown(() => other.close())
  const hashOf = (stored: StoredObject | undefined) => stored?.headers['x-amz-content-sha256']
  for (const one of [other, bucket]) await one.create('log/1', Buffer.from('text'))
  t.equal(hashOf(secure.objects.get('shop/one/log/1')), 'UNSIGNED-PAYLOAD')
  t.match(hashOf(server.objects.get('shop/one/log/1')), /^[0-9a-f]{64}$/)
  const body = Buffer.alloc(9_000_000, 'abc')
  await other.upload('segments/1', stream(body))
  t.ok((await all(await other.stream('segments/1', 0))).equals(body))
  await probeBucket(other)
})

t.test('encryption by the store is asked for on every object', async (t) => {
  const other = openBucket({ ...target, sse: 'aws:kms', kmsKeyId: 'key/1' })
  t.teardown(() => other.close())
  await other.create('log/1', Buffer.from('text'))
  await other.upload('segments/1', stream(Buffer.alloc(9_000_000)))
  for (const { headers } of server.objects.values())
    t.match(headers, {
      'x-amz-server-side-encryption': 'aws:kms',
      'x-amz-server-side-encryption-aws-kms-key-id': 'key/1',
    })
  t.equal(server.objects.size, 2)
})

t.test('requests and bytes are counted as stores charge for them', async (t) => {
  const counted = newBucketCounters()
  const other = openBucket(target, counted)
  t.teardown(() => other.close())
  await other.create('log/1', Buffer.alloc(100))
  await other.create('log/1', Buffer.alloc(100))
  await other.upload('segments/1', stream(Buffer.alloc(9_000_000)))
  await other.get('log/1', 100)
  for await (const _ of other.list('log/')) break
  await other.remove('log/1')
  t.same(counted, {
    requests: { put: 6, get: 1, list: 1, remove: 1 },
    failedRequests: 1,
    sentBytes: 9_000_200,
    receivedBytes: 100,
  })
})
