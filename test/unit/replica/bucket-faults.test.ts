/** What the bucket reports when the store fails, lies or disappears: whether repeating helps, and whether the outcome is known. */
import t from 'tap'
import { BucketError, openBucket, probeBucket, type ReplicaTarget } from '../../../src/replica/bucket.ts'
import { startBucketServer } from '../../support/bucket-server.ts'
import { freePort } from '../../support/free-port.ts'
import { until } from '../../support/until.ts'

const server = await startBucketServer()
t.teardown(() => server.stop())
t.beforeEach(() => {
  server.recover()
  server.objects.clear()
  Object.assign(server.behaviour, {
    conditions: 'supported',
    clockAheadMs: 0,
    pageSize: 1_000,
    listsUnordered: false,
    ignoresRanges: false,
  })
})

const target: ReplicaTarget = {
  bucket: server.account.bucket,
  prefix: '',
  region: server.account.region,
  endpoint: server.endpoint,
  forcePathStyle: true,
  accessKey: server.account.accessKey,
  secretKey: server.account.secretKey,
  sessionToken: null,
  sse: null,
  kmsKeyId: null,
}
const bucket = openBucket(target)
t.teardown(() => bucket.close())
const body = Buffer.alloc(300_000, 'abc')

async function errorOf(work: Promise<unknown>): Promise<BucketError> {
  const error = await work.then(
    () => new Error('it succeeded'),
    (error: unknown) => error,
  )
  if (error instanceof BucketError) return error
  throw error
}

/** The same request with other settings of the target. */
async function withTarget<T>(
  change: Partial<ReplicaTarget>,
  run: (bucket: ReturnType<typeof openBucket>) => Promise<T>,
): Promise<T> {
  const other = openBucket({ ...target, ...change })
  try {
    return await run(other)
  } finally {
    other.close()
  }
}

async function* stream(bytes: Buffer, chunk = 1_000_000): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk)
}

async function all(chunks: AsyncIterable<Buffer> | null): Promise<Buffer> {
  const list: Buffer[] = []
  for await (const chunk of chunks ?? []) list.push(chunk)
  return Buffer.concat(list)
}

async function names(prefix: string, after?: string): Promise<string[]> {
  const list: string[] = []
  for await (const { name } of bucket.list(prefix, after)) list.push(name)
  return list
}

t.test('a throttled creation says how long to wait, and that its outcome is unknown', async (t) => {
  server.fail({ fault: { status: 503, code: 'SlowDown', headers: { 'retry-after': '3' } } })
  t.match(await errorOf(bucket.create('log/1', body)), {
    kind: 'transient',
    code: 'SlowDown',
    retryAfterMs: 3_000,
    unknown: true,
  })
  t.equal(await bucket.create('log/1', body), 'created')
})

t.test('a failure inside the store is transient', async (t) => {
  server.fail({ times: 2, fault: { status: 500, code: 'InternalError' } })
  t.match(await errorOf(bucket.create('log/1', body)), {
    kind: 'transient',
    code: 'InternalError',
    unknown: true,
  })
  t.match(await errorOf(bucket.get('log/1', 10)), { kind: 'transient', unknown: false, retryAfterMs: null })
})

t.test('a lost response: the object is stored, and the repeat finds it', async (t) => {
  server.fail({ kind: 'create', fault: 'lost_response' })
  t.match(await errorOf(bucket.create('log/1', body)), { kind: 'transient', unknown: true })
  t.equal(await bucket.create('log/1', body), 'exists')
  t.ok((await bucket.get('log/1', body.length))?.equals(body))
})

t.test('an upload that was cut stores nothing', async (t) => {
  server.fail({ kind: 'create', fault: 'cut_upload' })
  t.match(await errorOf(bucket.create('log/1', body)), { kind: 'transient', unknown: true })
  t.equal(server.objects.size, 0)
  t.equal(await bucket.create('log/1', body), 'created')
})

t.test('a store that does not respond: the caller ends the request', async (t) => {
  for (const kind of ['create', 'get'] as const) {
    server.fail({ kind, fault: 'hang' })
    const before = server.counts[kind]
    const stop = new AbortController()
    const work =
      kind === 'create' ? bucket.create('log/1', body, stop.signal) : bucket.get('log/1', 10, stop.signal)
    const failed = errorOf(work)
    await until('the store has the request', () => server.counts[kind] > before)
    stop.abort()
    t.match(await failed, { kind: 'transient', code: 'aborted', unknown: kind === 'create' })
  }
})

t.test('a request that conflicts with another one is repeated', async (t) => {
  const conflict = { status: 409, code: 'ConditionalRequestConflict' }
  server.fail({ kind: 'create', times: 2, fault: conflict })
  t.equal(await bucket.create('log/1', body), 'created')
  server.fail({ kind: 'create', times: 100, fault: conflict })
  t.match(await errorOf(bucket.create('log/2', body)), {
    kind: 'transient',
    code: 'ConditionalRequestConflict',
    unknown: false,
  })
  server.recover()
  t.equal(await bucket.create('log/1', body), 'exists')
})

t.test('of many creations of one name exactly one succeeds', async (t) => {
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, at) => bucket.create('log/1', Buffer.from(`writer ${at}`))),
  )
  t.equal(outcomes.filter((one) => one === 'created').length, 1)
  const winner = outcomes.indexOf('created')
  t.equal(String(await bucket.get('log/1', 100)), `writer ${winner}`)
})

t.test('a wrong clock of this machine or of the store is corrected', async (t) => {
  await withTarget({}, async (fresh) => {
    for (const clockAheadMs of [3_600_000, 0, -86_400_000]) {
      server.behaviour.clockAheadMs = clockAheadMs
      t.equal(await fresh.create(`log/${clockAheadMs}`, body), 'created')
    }
  })
})

t.test('a store that ignores or rejects conditions is not accepted', async (t) => {
  server.behaviour.conditions = 'ignored'
  t.match(await errorOf(probeBucket(bucket)), { kind: 'permanent', code: 'no_conditional_writes' })
  t.equal(server.objects.size, 0, 'the probe is removed')
  server.behaviour.conditions = 'rejected'
  t.match(await errorOf(probeBucket(bucket)), {
    kind: 'permanent',
    code: 'no_conditional_writes',
    unknown: false,
  })
  t.match((await errorOf(bucket.create('log/1', body))).message, /does not support conditional creation/)
  server.behaviour.conditions = 'supported'
  await probeBucket(bucket)
})

t.test('wrong credentials, a wrong region and a missing bucket need the operator', async (t) => {
  const outcome = (change: Partial<ReplicaTarget>) =>
    withTarget(change, async (other) => {
      t.match(await errorOf(other.create('log/1', body)), { kind: 'permanent', unknown: false })
      return await errorOf(other.get('log/1', 10))
    })
  t.match(await outcome({ secretKey: 'wrong' }), { kind: 'permanent', code: 'SignatureDoesNotMatch' })
  t.match(await outcome({ accessKey: 'wrong' }), { kind: 'permanent', code: 'InvalidAccessKeyId' })
  t.match(await outcome({ region: 'us-east-1' }), { kind: 'permanent', code: 'AuthorizationHeaderMalformed' })
  t.match(await outcome({ bucket: 'missing' }), { kind: 'permanent', code: 'NoSuchBucket' }, 'not: no object')
})

t.test('a denied request says which permissions are needed, and not the keys', async (t) => {
  server.fail({ fault: { status: 403, code: 'AccessDenied' } })
  const { message } = await errorOf(bucket.get('log/1', 10))
  t.match(message, /s3:GetObject, s3:DeleteObject/)
  t.notMatch(message, server.account.secretKey)
})

t.test('a store that cannot be reached has certainly stored nothing', async (t) => {
  const endpoint = `http://127.0.0.1:${await freePort()}`
  await withTarget({ endpoint }, async (other) => {
    t.match(await errorOf(other.create('log/1', body)), {
      kind: 'transient',
      code: 'ECONNREFUSED',
      unknown: false,
    })
  })
})

t.test('an object that is larger than expected is not read to its end', async (t) => {
  server.objects.set('log/1', { body: Buffer.alloc(30_000_000), modifiedMs: 0, headers: {} })
  t.match(await errorOf(bucket.get('log/1', 1_000)), { kind: 'permanent', code: 'object_too_large' })
  t.equal((await bucket.get('log/1', 30_000_000))?.length, 30_000_000)
})

t.test('a download that was cut continues where it stopped', async (t) => {
  const large = Buffer.alloc(5_000_000, 'abcdefghijk')
  server.objects.set('segments/1', { body: large, modifiedMs: 0, headers: {} })
  server.fail({ kind: 'get', times: 2, fault: 'cut_download' })
  t.match(await errorOf(bucket.get('segments/1', large.length)), { kind: 'transient', unknown: false })
  const received: Buffer[] = []
  const at = () => received.reduce((bytes, chunk) => bytes + chunk.length, 0)
  const read = async () => {
    for await (const chunk of (await bucket.stream('segments/1', at())) ?? []) received.push(chunk)
  }
  t.match(await errorOf(read()), { kind: 'transient' })
  t.ok(at() > 0 && at() < large.length, 'a part was received')
  await read()
  t.ok(Buffer.concat(received).equals(large))
})

t.test('a store without ranges sends the object from its start', async (t) => {
  server.objects.set('segments/1', { body, modifiedMs: 0, headers: {} })
  server.behaviour.ignoresRanges = true
  t.ok((await all(await bucket.stream('segments/1', 123_456))).equals(body.subarray(123_456)))
})

t.test('a download that stops is ended by the caller', async (t) => {
  server.objects.set('segments/1', { body, modifiedMs: 0, headers: {} })
  server.fail({ kind: 'get', fault: 'stalled_download' })
  const stop = new AbortController()
  let bytes = 0
  const read = async () => {
    for await (const chunk of (await bucket.stream('segments/1', 0, stop.signal)) ?? []) bytes += chunk.length
  }
  const failed = errorOf(read())
  await until('half of it was received', () => bytes === body.length / 2)
  stop.abort()
  t.match(await failed, { kind: 'transient', code: 'aborted', unknown: false })
})

t.test('an upload that fails is invisible, and leaves no parts behind', async (t) => {
  const large = Buffer.alloc(20_000_000, 'x')
  const kinds = ['begin_upload', 'part', 'complete_upload'] as const
  for (const kind of kinds) {
    for (const fault of [{ status: 500, code: 'InternalError' }, 'cut_upload'] as const) {
      if (kind === 'begin_upload' && fault === 'cut_upload') continue
      let isClosed = false
      const source = async function* () {
        try {
          yield* stream(large)
        } finally {
          isClosed = true
        }
      }
      server.fail({ kind, fault, after: kind === 'part' ? 1 : 0 })
      t.match(await errorOf(bucket.upload('segments/1', source())), { kind: 'transient', unknown: true })
      t.same([server.objects.size, server.openUploads(), isClosed], [0, 0, true], `${kind} ${String(fault)}`)
    }
  }
  await bucket.upload('segments/1', stream(large))
  t.ok(server.objects.get('segments/1')?.body.equals(large))
})

t.test('the error of what is uploaded is passed on, and nothing is stored', async (t) => {
  const failing = async function* (bytes: number) {
    yield Buffer.alloc(bytes)
    throw new Error('the disk failed')
  }
  for (const bytes of [10, 10_000_000])
    await t.rejects(bucket.upload('segments/1', failing(bytes)), new Error('the disk failed'))
  t.same([server.objects.size, server.openUploads()], [0, 0])
})

t.test('an upload replaces an object, and can be cancelled', async (t) => {
  await bucket.upload('segments/1', stream(Buffer.from('old')))
  t.same(await bucket.upload('segments/1', stream(Buffer.alloc(0))), { bytes: 0 })
  t.equal((await bucket.get('segments/1', 10))?.length, 0)
  server.fail({ kind: 'part', fault: 'hang', after: 1 })
  const stop = new AbortController()
  const before = server.counts.part
  const failed = errorOf(bucket.upload('segments/2', stream(Buffer.alloc(20_000_000)), stop.signal))
  await until('the second part is under way', () => server.counts.part === before + 2)
  stop.abort()
  t.match(await failed, { code: 'aborted', unknown: true })
  await until('the parts are removed', () => server.openUploads() === 0)
  t.notOk(server.objects.has('segments/2'))
})

t.test('a listing has pages, an order and a beginning', async (t) => {
  const slots = Array.from({ length: 25 }, (_, at) => `log/${String(at).padStart(17, '0')}`)
  for (const name of ['segments/1', ...slots, 'log', 'snapshots/1', 'logs/1'])
    server.objects.set(name, { body, modifiedMs: Date.UTC(2026, 2, 4), headers: {} })
  server.behaviour.pageSize = 10
  const before = server.counts.list
  t.same(await names('log/'), slots)
  t.equal(server.counts.list - before, 3)
  t.same(await names('log/', slots[20]), slots.slice(21))
  t.same(await names('log/', slots[24]), [])
  t.same(await names('nothing/'), [])
  t.same(await names(''), ['log', ...slots, 'logs/1', 'segments/1', 'snapshots/1'])
  for await (const object of bucket.list('segments/'))
    t.same(object, { name: 'segments/1', bytes: body.length, modifiedMs: Date.UTC(2026, 2, 4) })
})

t.test('a listing below a prefix has relative names, and passes over the object of the folder', async (t) => {
  for (const name of ['shop/', 'shop/log/', 'shop/log/1', 'shopping/log/2'])
    server.objects.set(name, { body, modifiedMs: 0, headers: {} })
  await withTarget({ prefix: 'shop/' }, async (shop) => {
    const found: string[] = []
    for await (const { name } of shop.list('')) found.push(name)
    t.same(found, ['log/', 'log/1'])
  })
})

t.test('a store whose listings have no order cannot hold a replica', async (t) => {
  for (const name of ['log/1', 'log/2']) server.objects.set(name, { body, modifiedMs: 0, headers: {} })
  server.behaviour.listsUnordered = true
  t.match(await errorOf(names('log/')), { kind: 'permanent', code: 'unordered_listing' })
})

t.test('a listing that fails on its second page is an error, not an end', async (t) => {
  for (const name of ['log/1', 'log/2', 'log/3'])
    server.objects.set(name, { body, modifiedMs: 0, headers: {} })
  server.behaviour.pageSize = 2
  server.fail({ kind: 'list', after: 1, fault: { status: 503, code: 'SlowDown' } })
  t.match(await errorOf(names('log/')), { kind: 'transient', code: 'SlowDown' })
})

t.test('removing is repeated without harm', async (t) => {
  await bucket.create('log/1', body)
  server.fail({ kind: 'delete', fault: 'lost_response' })
  t.match(await errorOf(bucket.remove('log/1')), { kind: 'transient', unknown: true })
  await bucket.remove('log/1')
  await bucket.remove('log/1')
  t.equal(server.objects.size, 0)
})
