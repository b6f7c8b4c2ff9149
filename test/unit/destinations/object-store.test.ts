import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { resolvedConfig } from '../../../src/contract/destinations/config-field.ts'
import { objectStore as objectStoreType } from '../../../src/contract/destinations/object-store.fields.ts'
import {
  type Batch,
  DeliveryError,
  type DriverSettings,
  type ObjectStoreSpec,
} from '../../../src/destinations/driver.ts'
import { objectStore } from '../../../src/destinations/object-store/driver.ts'
import { anyKey } from '../../support/batches.ts'
import { startS3, startSigV4Receiver } from '../../support/s3.ts'
import { until } from '../../support/until.ts'

const account = {
  bucket: 'events',
  region: 'eu-west-1',
  accessKey: 'AKIDTEST',
  secretKey: 'secret/of+the=test',
}
const receiver = await startSigV4Receiver(account)
t.teardown(() => receiver.stop())
t.beforeEach(() => {
  receiver.objects.clear()
  receiver.puts.length = receiver.requests.length = receiver.faults.length = 0
})

const settings = { databaseTls: false, egress: { allow: [], deny: [], private: 'allow' as const } }
const never = new AbortController().signal
const receivedMs = Date.parse('2026-03-04T05:06:07.890Z')
const defaultKey = 'orders/date=2026-03-04/hour=05/0000000000000011-0000000000000012-dest-1.ndjson.gz'

function spec(config: Record<string, unknown> = {}): ObjectStoreSpec {
  return {
    destinationId: 'dest-1',
    pipeId: 'pipe-1',
    pipeName: 'orders',
    type: 'destination_object_store',
    columns: [],
    timestampField: 'ingest_ts',
    config: resolvedConfig(objectStoreType.fields, {
      bucket: account.bucket,
      region: account.region,
      endpoint: receiver.endpoint,
      access_key: account.accessKey,
      secret_key: account.secretKey,
      ...config,
    }),
  }
}

function batchOf(...bodies: (string | Buffer)[]): Batch {
  const messages = bodies.map((text, at) => {
    const body = Buffer.from(text)
    return {
      seq: 11 + at,
      pipeId: 'pipe-1',
      msgId: `0190-msg-${at}`,
      receivedMs: receivedMs + at * 7_200_000,
      recordCount: 1,
      body,
    }
  })
  return {
    identity: 'id',
    firstSeq: 11,
    lastSeq: 10 + messages.length,
    messages,
    recordCount: messages.length,
    byteCount: 0,
    recordOffset: 0,
  }
}
const batch = batchOf('{"n":12345678901234567890,"p":1.10}\n{"a":"ä\\n"}', '{"b":2}')

async function deliver(config: Record<string, unknown> = {}, what = batch, signal = never): Promise<void> {
  const driver = objectStore.open(spec(config), settings, anyKey)
  try {
    await driver.deliver(what, signal)
  } finally {
    await driver.close()
  }
}
async function failure(config: Record<string, unknown> = {}, signal = never): Promise<DeliveryError> {
  try {
    await deliver(config, batch, signal)
  } catch (error) {
    if (error instanceof DeliveryError) return error
    throw error
  }
  throw new Error('delivery should have failed')
}

t.test(
  'a batch is one gzipped NDJSON object under the default key, every record in its own text',
  async (t) => {
    await deliver()
    t.same([...receiver.objects.keys()], [defaultKey])
    const { body, headers } = receiver.objects.get(defaultKey)!
    t.equal(gunzipSync(body).toString(), '{"n":12345678901234567890,"p":1.10}\n{"a":"ä\\n"}\n{"b":2}\n')
    t.match(headers, { 'content-type': 'application/x-ndjson', 'content-encoding': 'gzip' })
  },
)

t.test('format json_array without compression is one JSON array', async (t) => {
  await deliver({ format: 'json_array', compression: 'none', key_template: '{first_seq}.{ext}' })
  const { body, headers } = receiver.objects.get('0000000000000011.json')!
  t.equal(body.toString(), '[{"n":12345678901234567890,"p":1.10},{"a":"ä\\n"},{"b":2}]')
  t.equal(headers['content-encoding'], undefined)
})

t.test('every token of the key template is filled in from the batch alone', async (t) => {
  const tokens =
    '{pipe_name} {pipe_id} {destination_id} {yyyy}{MM}{dd}T{HH}{mm}{ss} {first_seq} {last_seq} {msg_id}.{ext}'
  await deliver({ key_template: tokens })
  t.same(
    [...receiver.objects.keys()],
    ['orders pipe-1 dest-1 20260304T050607 0000000000000011 0000000000000012 0190-msg-0.ndjson.gz'],
  )
})

t.test('a template with an unknown token is a permanent error that names it', async (t) => {
  const error = await failure({ key_template: '{first_seq}/{hour}' })
  t.match(error, { class: 'permanent', failedSeq: 11 })
  t.match(error.message, /\{hour\}/)
})

t.test('storage_class, sse, kms_key_id and session_token are sent and signed', async (t) => {
  await deliver({
    storage_class: 'STANDARD_IA',
    sse: 'aws:kms',
    kms_key_id: 'key-7',
    session_token: 'session',
  })
  t.match(receiver.objects.get(defaultKey)?.headers, {
    'x-amz-storage-class': 'STANDARD_IA',
    'x-amz-server-side-encryption': 'aws:kms',
    'x-amz-server-side-encryption-aws-kms-key-id': 'key-7',
    'x-amz-security-token': 'session',
  })
})

t.test('a PUT whose answer is lost is sent again under the same key: exactly one copy', async (t) => {
  receiver.faults.push('store_then_cut')
  const error = await failure()
  t.equal(error.class, 'transient')
  const stored = receiver.objects.get(defaultKey)?.body
  await deliver()
  t.same(receiver.puts, [defaultKey, defaultKey], 'it was stored twice, under one key')
  t.equal(receiver.objects.size, 1)
  t.same(receiver.objects.get(defaultKey)?.body, stored, 'with the same bytes')
})

t.test('the SDK does not retry: one attempt is one request', async (t) => {
  receiver.faults.push({ status: 500, code: 'InternalError' })
  t.match(await failure(), { class: 'transient', code: 'InternalError' })
  t.equal(receiver.requests.length, 1)
})

t.test('SlowDown is transient and Retry-After is handed on', async (t) => {
  receiver.faults.push({ status: 503, code: 'SlowDown', headers: { 'retry-after': '7' } })
  t.match(await failure(), { class: 'transient', code: 'SlowDown', retryAfterMs: 7000 })
})

t.test(
  'rejections of the whole destination are permanent, name the first message and say what to do',
  async (t) => {
    t.match(await failure({ bucket: 'other' }), {
      class: 'permanent',
      code: 'NoSuchBucket',
      failedSeq: 11,
      message: /Bucket "other" does not exist/,
    })
    t.match(await failure({ secret_key: 'wrong' }), {
      class: 'permanent',
      code: 'SignatureDoesNotMatch',
      failedSeq: 11,
      message: /secret_key/,
    })
    t.match(await failure({ access_key: 'wrong' }), {
      class: 'permanent',
      code: 'InvalidAccessKeyId',
      message: /access_key/,
    })
    receiver.faults.push({ status: 403, code: 'AccessDenied' })
    t.match(await failure(), { class: 'permanent', code: 'AccessDenied', message: /s3:PutObject/ })
  },
)

t.test('a wrong region is permanent and the right one is named, from header or body', async (t) => {
  receiver.faults.push({
    status: 301,
    code: 'PermanentRedirect',
    headers: { 'x-amz-bucket-region': 'ap-south-1' },
  })
  t.match(await failure(), {
    class: 'permanent',
    code: 'PermanentRedirect',
    message: /set region to ap-south-1/,
  })
  receiver.faults.push({
    status: 400,
    code: 'AuthorizationHeaderMalformed',
    extra: '<Region>sa-east-1</Region>',
  })
  t.match(await failure(), {
    class: 'permanent',
    code: 'AuthorizationHeaderMalformed',
    message: /set region to sa-east-1/,
  })
})

t.test('errors never hold a secret', async (t) => {
  const error = await failure({ secret_key: 'very-secret-value' })
  t.notMatch(`${error.message} ${error.code}`, /very-secret-value/)
})

t.test('a store that is not there is transient', async (t) => {
  t.match(await failure({ endpoint: 'http://127.0.0.1:1' }), { class: 'transient', code: 'ECONNREFUSED' })
})

t.test('an address that the egress policy rejects is permanent, without a request', async (t) => {
  for (const endpoint of ['http://169.254.169.254', 'http://0x7f.1:9', 'http://[::ffff:a9fe:a9fe]'])
    t.match(await failure({ endpoint }), { class: 'permanent', code: 'egress_denied' }, endpoint)
  t.equal(receiver.requests.length, 0)
})

t.test('an aborted attempt ends although the store is silent', async (t) => {
  receiver.faults.push('silence')
  const stop = new AbortController()
  const attempt = failure({}, stop.signal)
  await until('the request has arrived', () => receiver.requests.length === 1)
  stop.abort()
  t.match(await attempt, { class: 'transient', code: 'aborted' })
})

t.test('above 64 MiB the object goes in parts and is whole again', async (t) => {
  const record = Buffer.from(`{"x":"${'y'.repeat(1_000_000)}"}`)
  const body = Buffer.concat(
    Array.from({ length: 68 }, (_, at) => (at === 0 ? record : Buffer.concat([Buffer.from('\n'), record]))),
  )
  await deliver({ compression: 'none', key_template: '{first_seq}' }, batchOf(body, '{}'))
  t.equal(receiver.requests.filter((line) => line.includes('partNumber=')).length, 5)
  const stored = receiver.objects.get('0000000000000011')!.body
  t.ok(stored.equals(Buffer.concat([body, Buffer.from('\n{}\n')])))
})

t.test('test of a destination: bucket and write, nothing left behind; a wrong secret fails', async (t) => {
  const good = await objectStore.check(spec(), settings, never)
  t.same(
    good.map(({ name, ok }) => [name, ok]),
    [
      ['bucket', true],
      ['write', true],
    ],
  )
  t.equal(receiver.objects.size, 0)
  t.match(receiver.puts[0], /^orders\/date=.*\/\.pipectl-check-/)
  const bad = await objectStore.check(spec({ secret_key: 'wrong' }), settings, never)
  t.ok(bad.some(({ ok }) => !ok))
  const missing = await objectStore.check(spec({ bucket: 'other' }), settings, never)
  t.match(missing, [{ name: 'bucket', ok: false, message: /does not exist at this endpoint/ }])
})

t.test('a general S3 server takes and gives back the object', async (t) => {
  const s3 = await startS3('general')
  t.teardown(() => s3.stop())
  const config = {
    endpoint: s3.endpoint,
    bucket: 'general',
    region: 'us-east-1',
    access_key: 'S3RVER',
    secret_key: 'S3RVER',
  }
  await deliver({ ...config, compression: 'none', key_template: 'public/{first_seq}.{ext}' })
  const { GetObjectCommand, S3Client } = await import('@aws-sdk/client-s3')
  const reader = new S3Client({
    endpoint: s3.endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
  })
  const answer = await reader.send(
    new GetObjectCommand({ Bucket: 'general', Key: 'public/0000000000000011.ndjson' }),
  )
  t.match(await answer.Body?.transformToString(), /12345678901234567890/)
  reader.destroy()
  t.match(await failure({ ...config, bucket: 'missing' }), { class: 'permanent', code: 'NoSuchBucket' })
})

t.test("this machine's own AWS credentials are the operator's", async (t) => {
  const before = { ...process.env }
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'AKIAOPERATOR', AWS_SECRET_ACCESS_KEY: 'operator-secret' })
  t.teardown(() => {
    for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) delete process.env[name]
    Object.assign(process.env, before)
  })
  const listed = { ...settings, machineCredentials: [account.bucket] }
  const failureOf = async (config: Record<string, unknown>, used: DriverSettings) => {
    const driver = objectStore.open(spec({ access_key: null, secret_key: null, ...config }), used, anyKey)
    try {
      await driver.deliver(batch, never)
    } catch (error) {
      return error
    } finally {
      await driver.close()
    }
    return 'delivered'
  }
  const refused = { class: 'permanent', code: 'no_credentials', failedSeq: 11 }
  t.match(await failureOf({}, settings), refused, 'off by default')
  t.match(await failureOf({ endpoint: null }, settings), { ...refused, message: /machine_credentials/ })
  t.match(await failureOf({ endpoint: null, bucket: 'another' }, listed), refused, 'another bucket')
  t.match(await failureOf({}, listed), { ...refused, message: /never used with an endpoint/ })
  t.equal(receiver.requests.length, 0, 'no endpoint has seen a signature of the operator')
  const nowhere = { ...listed, egress: { ...settings.egress, deny: ['*.amazonaws.com'] } }
  t.match(
    await failureOf({ endpoint: null }, nowhere),
    { code: 'egress_denied' },
    'a listed bucket goes on to AWS',
  )
  const checks = await objectStore.check(spec({ access_key: null, secret_key: null }), settings, never)
  t.match(checks, [{ ok: false, message: /access_key and secret_key/ }])
})
