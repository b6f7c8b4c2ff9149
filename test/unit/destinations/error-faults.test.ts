/** The fault of every permanent error: either a record, or the destination, where skipping one changes nothing. */
import t from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { responseError } from '../../../src/destinations/http-endpoint/response.ts'
import { mysqlError } from '../../../src/destinations/mysql/errors.ts'
import { objectStoreError } from '../../../src/destinations/object-store/errors.ts'
import { postgresError } from '../../../src/destinations/postgresql/errors.ts'

t.test('PostgreSQL, by SQLSTATE', async (t) => {
  const faultOf = (code: string, more: object = {}) =>
    postgresError(Object.assign(new Error('m'), { code, severity: 'ERROR', ...more })).fault
  const table: [fault: DeliveryError['fault'], codes: string[]][] = [
    ['records', ['22001', '22003', '22007', '22P02', '22P05', '22021', '21000', '23502', '23503', '23505']],
    ['records', ['23514', '23P01', '42804', '42846', '44000', '54000', 'P0001', 'P0004']],
    ['destination', ['28000', '28P01', '3D000', '3F000', '42P01', '42703', '42P10', '42501', '25006']],
    ['destination', ['0A000', '42601', '54001', '54011', 'XX000', 'P0002', 'ZZ999', '42704']],
    [undefined, ['08006', '40001', '40P01', '53300', '55P03', '57014', '57P01', '25P03']],
  ]
  for (const [fault, codes] of table) for (const code of codes) t.equal(faultOf(code), fault, code)
  t.equal(faultOf('42501', { routine: 'ExecWithCheckOptions' }), 'records', 'a policy checks each new row')
  t.equal(postgresError(new Error('SASL: wrong')).fault, 'destination')
  t.equal(postgresError(Object.assign(new Error('m'), { code: 'ECONNRESET' })).fault, undefined)
})

t.test('MySQL and MariaDB, by number', async (t) => {
  const faultOf = (errno: number) =>
    mysqlError(Object.assign(new Error('m'), { errno, code: 'ER_X', sqlState: 'HY000' }), 1).fault
  const table: [fault: DeliveryError['fault'], numbers: number[]][] = [
    ['records', [1048, 1062, 1118, 1153, 1242, 1264, 1265, 1292, 1300, 1364, 1366, 1369, 1406, 1411, 1416]],
    ['records', [1452, 1526, 1586, 1644, 1690, 1748, 1916, 1918, 3140, 3819, 4025]],
    ['destination', [1044, 1045, 1049, 1054, 1130, 1142, 1146, 1471, 3118, 1064, 1305, 9999]],
    [undefined, [1040, 1205, 1213, 1290, 1927, 3024]],
  ]
  for (const [fault, numbers] of table)
    for (const errno of numbers) t.equal(faultOf(errno), fault, `${errno}`)
  const handshake = Object.assign(new Error('m'), { code: 'HANDSHAKE_NO_SSL_SUPPORT' })
  t.equal(mysqlError(handshake, 1).fault, 'destination')
})

t.test('HTTP endpoints, by status', async (t) => {
  const faultOf = (status: number) => responseError({ status, headers: {}, excerpt: '' }, 0)?.fault
  for (const status of [400, 409, 413, 415, 422]) t.equal(faultOf(status), 'records', `${status}`)
  for (const status of [301, 308, 401, 402, 403, 404, 405, 406, 410, 411, 414, 417, 418, 421, 431, 451])
    t.equal(faultOf(status), 'destination', `${status}`)
  for (const status of [408, 425, 429, 500, 503]) t.equal(faultOf(status), undefined, `${status}`)
})

t.test('ClickHouse, by the exception of a response with the status 200', async (t) => {
  const failure = (code: string | undefined) =>
    responseError({ status: 200, headers: { 'x-clickhouse-exception-code': code }, excerpt: '' }, 0)
  for (const code of ['26', '27', '41', '117'])
    t.match(failure(code), { class: 'permanent', fault: 'records', code: 'clickhouse_exception' }, code)
  for (const code of ['241', '252', '999', 'x'])
    t.match(failure(code), { class: 'transient', code: 'clickhouse_exception' }, code)
  for (const code of [undefined, '0']) t.equal(failure(code), null, String(code))
})

t.test('object stores, by code', async (t) => {
  const faultOf = (name: string, httpStatusCode: number) =>
    objectStoreError(Object.assign(new Error('m'), { name, $metadata: { httpStatusCode } }), {
      ...{ bucket: 'b', region: 'r', firstSeq: 1 },
    }).fault
  for (const code of ['EntityTooLarge', 'EntityTooSmall', 'MaxMessageLengthExceeded'])
    t.equal(faultOf(code, 400), 'records', code)
  t.equal(faultOf('Unknown', 413), 'records', 'a proxy says it without a code')
  for (const code of [
    'NoSuchBucket',
    'AccessDenied',
    'InvalidAccessKeyId',
    'InvalidStorageClass',
    'InvalidRequest',
  ])
    t.equal(faultOf(code, 403), 'destination', code)
  t.equal(faultOf('SlowDown', 503), undefined)
})

t.test('an error that says nothing of it is the destination’s when it is permanent', async (t) => {
  t.equal(new DeliveryError('permanent', 'egress_denied', 'm').fault, 'destination')
  t.equal(new DeliveryError('transient', 'ECONNREFUSED', 'm').fault, undefined)
})

t.test(
  'a rejected record’s texts are short, printable and without secrets, whatever the server said',
  async (t) => {
    const secret = 'correct-horse-battery'
    const rejected = {
      ...{ seq: 7, recordIndex: 3, code: 'a code\n', message: `said ${secret}\u001b[31m` },
      ...{ column: `${'c'.repeat(500)}\n`, value: `${'🦊'.repeat(1_000_000)}` },
    }
    const error = new DeliveryError('permanent', '22P02', 'm', { fault: 'records', rejected })
    const shown = error.scrubbed([secret]).rejected
    t.match(shown, { seq: 7, recordIndex: 3, code: 'a_code_', message: 'said [redacted] [31m' })
    t.equal([...(shown?.value ?? '')].length, 200)
    t.ok(shown?.value?.endsWith('🦊…'))
    t.equal(shown?.column?.length, 128)
    t.strictSame(error.with({ failedSeq: 7 }).rejected, error.rejected, 'once is enough')
    const named = new DeliveryError('permanent', 'x', 'm', {
      rejected: { ...rejected, value: `v ${secret}` },
    })
    t.equal(named.scrubbed([secret]).rejected?.value, 'v [redacted]')
  },
)
