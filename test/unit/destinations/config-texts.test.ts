/** Texts of a config that could lead a request or a statement elsewhere are rejected when a destination is saved. */
import t from 'tap'
import { resolveConfig } from '../../../src/contract/destination.ts'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { descriptorOf } from '../../../src/destinations/drivers.ts'
import { objectOf } from '../../../src/destinations/object-store/body.ts'
import { makeBatch, makeSpec } from '../../support/batches.ts'

const keysAtFault = (
  type: 'destination_database' | 'destination_object_store' | 'destination_http_endpoint',
  config: Record<string, unknown>,
) =>
  descriptorOf(type)
    .rules(resolveConfig(type, config).config)
    .map(([key]) => key)

const control = ['\u0000', '\n', '\r', '\u001b[2J', '\u007f', '\u009b', '\u2028']

t.test('object store: no traversal in the bucket, no control characters anywhere', async (t) => {
  for (const bucket of ['.', '..', '...', 'a/b', 'a\\b', 'a b', 'a\u0000'])
    t.strictSame(keysAtFault('destination_object_store', { bucket }), ['bucket'], JSON.stringify(bucket))
  for (const bucket of ['events', 'my.bucket', 'a..b'])
    t.strictSame(keysAtFault('destination_object_store', { bucket }), [], bucket)
  const keys = {
    bucket: 'b',
    access_key: 'a',
    secret_key: 's',
    session_token: 't',
    sse: 'aws:kms',
    kms_key_id: 'k',
  }
  for (const key of ['region', 'storage_class', 'kms_key_id', 'access_key', 'secret_key', 'session_token'])
    for (const text of control)
      t.strictSame(keysAtFault('destination_object_store', { ...keys, [key]: `x${text}` }), [key], key)
})

t.test('database: no control characters in database and username', async (t) => {
  const config = { host: 'h', port: 1, database: 'd', username: 'u', password: 'p', table: 't' }
  t.strictSame(keysAtFault('destination_database', config), [])
  for (const key of ['database', 'username'])
    for (const text of control)
      t.strictSame(keysAtFault('destination_database', { ...config, [key]: `x${text}` }), [key], key)
})

t.test('Loki: no label that it reserves, and none that is no name', async (t) => {
  const config = { url: 'http://a.test/', body_format: 'loki' }
  for (const [label, isTaken] of Object.entries({
    app: true,
    _a: true,
    a__b: true,
    __a: false,
    __: false,
    '1': false,
  }))
    t.strictSame(
      keysAtFault('destination_http_endpoint', { ...config, labels: { [label]: 'x' } }),
      isTaken ? [] : [`labels.${label}`],
    )
})

t.test('the name of a pipe is free text, but no way out of the bucket', async (t) => {
  for (const pipeName of ['..', 'a/../b', '.']) {
    const spec = { ...makeSpec('destination_object_store', { bucket: 'b' }), pipeName }
    const error = await objectOf(makeBatch([[{ a: 1 }]], 7), spec).catch((reason: unknown) => reason)
    t.ok(error instanceof DeliveryError)
    t.match(error, { class: 'permanent', code: 'invalid_key_template', failedSeq: 7 }, pipeName)
  }
})
