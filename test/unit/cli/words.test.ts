import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import {
  columnText,
  columnTypeWords,
  parseColumn,
  roleWords,
} from '../../../src/apps/cli/destinations/columns.ts'
import { parseDestinationUrl } from '../../../src/apps/cli/destinations/connection-url.ts'
import { secretVariable } from '../../../src/apps/cli/destinations/secrets.ts'
import { exportYaml } from '../../../src/apps/cli/manifest/export.ts'
import { render } from '../../../src/apps/cli/output.ts'
import { pipeFields } from '../../../src/apps/cli/pipe-fields.ts'
import { ingestProgressLine } from '../../../src/apps/cli/progress.ts'
import { startAfter } from '../../../src/apps/cli/pull/cursor-file.ts'
import { messageText } from '../../../src/apps/cli/pull/sinks.ts'
import { ApiFailure, Failure, unavailableReasons } from '../../../src/apps/client/failure.ts'
import { fieldsFromFlags, limitFlags } from '../../../src/apps/client/flag-fields.ts'
import { retryAfterMs } from '../../../src/apps/client/http.ts'
import { elementTexts, indented, singleLine, valueText } from '../../../src/apps/client/json-text.ts'
import { nextName } from '../../../src/apps/client/key-name.ts'
import { printable, printableLines } from '../../../src/apps/client/printable.ts'
import { columnTypes, semanticRoles } from '../../../src/contract/destination.ts'
import { pipeDefaults } from '../../../src/contract/pipe.ts'
import { bytes, count, duration } from '../../../src/platform/quantities.ts'

const failsWith = (
  t: Pick<typeof import('tap').t, 'match' | 'not' | 'fail'>,
  what: () => unknown,
  message: RegExp,
) => {
  try {
    what()
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    t.match(error.message, message)
    t.not(error.hint, '', 'says what to do next')
    return error
  }
  t.fail(`nothing was thrown where ${message} was expected`)
  return null
}

t.test('a column in one word is the mapping that the contract describes, and back', async (t) => {
  t.same(parseColumn('id:number:dedupe_id'), {
    column_name: 'id',
    column_type: 'number',
    semantic_role: 'dedupe_id',
    source_field: 'id',
  })
  t.same(parseColumn('key:string:dedupe_id:generated'), {
    column_name: 'key',
    column_type: 'string',
    semantic_role: 'dedupe_id',
  })
  const stored = { source_field: null, semantic_role: null, nullable: true }
  for (const text of [
    'id:number:dedupe_id',
    'key:string:dedupe_id:generated',
    'id:number:dedupe_id:source=order_id',
  ]) {
    t.equal(columnText({ ...stored, ...parseColumn(text) } as never), text)
  }
  const whole = 'at:string:record_ts:source=created at:required'
  t.same(parseColumn(whole), {
    column_name: 'at',
    column_type: 'string',
    semantic_role: 'record_ts',
    source_field: 'created at',
    nullable: false,
  })
  t.equal(
    columnText({ source_field: null, semantic_role: null, nullable: true, ...parseColumn(whole) } as never),
    whole,
  )
  failsWith(t, () => parseColumn('id'), /is not a type/)
  failsWith(t, () => parseColumn(':number'), /name is missing/)
  failsWith(t, () => parseColumn('id:number:dedupe'), /neither a role/)
  failsWith(t, () => parseColumn('id:number:dedupe_id:record_ts'), /two roles/)
  failsWith(t, () => parseColumn('id:number:generated'), /`generated` is for a dedupe_id column/)
  failsWith(t, () => parseColumn('id:number:dedupe_id:source=a:generated'), /without a source/)
})

t.test('the words that the commands repeat are the contract’s', async (t) => {
  t.same(columnTypeWords, columnTypes)
  t.same(roleWords, semanticRoles)
  t.equal(secretVariable('auth_header'), 'PIPECTL_DESTINATION_AUTH_HEADER')
})

t.test('a destination as a URL: the scheme says the type', async (t) => {
  t.same(parseDestinationUrl('postgres://loader@db.example.com:5433/shop?table=sales.orders'), {
    destination_type: 'destination_database',
    destination_config: {
      host: 'db.example.com',
      port: 5433,
      database: 'shop',
      username: 'loader',
      table: 'sales.orders',
      dialect: 'postgresql',
    },
  })
  t.match(parseDestinationUrl('mariadb://u%40x@[::1]/shop?table=t').destination_config, {
    host: '::1',
    username: 'u@x',
    dialect: 'mariadb',
  })
  t.same(parseDestinationUrl('https://example.com/hook?a=1#b').destination_config, {
    url: 'https://example.com/hook?a=1#b',
  })
  t.same(parseDestinationUrl('s3://bucket?region=eu-central-1').destination_config, {
    bucket: 'bucket',
    region: 'eu-central-1',
  })
  t.same(parseDestinationUrl('tls://me@[::1]:4223?subject=events.{pipe_name}&stream=EVENTS'), {
    destination_type: 'destination_nats',
    destination_config: {
      url: 'tls://[::1]:4223',
      subject: 'events.{pipe_name}',
      username: 'me',
      stream: 'EVENTS',
    },
  })
  failsWith(t, () => parseDestinationUrl('nats://host'), /no subject/)
  failsWith(t, () => parseDestinationUrl('nats://host?subject=a&token=b'), /unknown parameter "token"/)
  failsWith(t, () => parseDestinationUrl('ftp://x/y'), /not a kind of destination/)
  failsWith(t, () => parseDestinationUrl('postgres://u@h/db?sslmode=require'), /TLS is decided by the daemon/)
  failsWith(t, () => parseDestinationUrl('postgres://u@h'), /no database/)
  failsWith(t, () => parseDestinationUrl('postgres://u%zz@h/db'), /has a % that/)
  t.match(parseDestinationUrl('postgres://u@h/db?sslmode=verify-full').destination_config, {
    tls_verify: 'full',
  })
})

t.test('a password inside a URL is rejected and not repeated', async (t) => {
  for (const url of ['postgres://u:hunter2@h/db?table=t', 'https://u:hunter2@h/hook']) {
    const failure = failsWith(t, () => parseDestinationUrl(url), /holds a password/)
    t.equal(failure?.exitCode, 2)
    t.notMatch(`${failure?.message} ${failure?.hint}`, /hunter2/)
  }
})

t.test('pipe fields and limits come from flags, and only those that were given', async (t) => {
  t.same(pipeFields({}), {})
  t.same(pipeFields({ ...{ ingestIp: true }, geo: ['country', 'city=town', 'region='] }), {
    pipe_add_ingest_ip: true,
    pipe_ingest_geo_country_field: 'ingest_country_code',
    pipe_ingest_geo_city_field: 'town',
    pipe_ingest_geo_region_field: null,
  })
  t.equal(Object.keys(pipeFields({ geo: ['all'] })).length, 7)
  failsWith(t, () => pipeFields({ geo: ['planet'] }), /no such dimension/)
  t.same(fieldsFromFlags(limitFlags, { recordsPerSecond: '5', bytesPerDay: 'none' }), {
    pl_ingest_max_records_per_second: 5,
    pl_ingest_max_bytes_per_day: null,
  })
  for (const wrong of ['0', '-1', '1.5', 'ten', '99999999999999999999']) {
    failsWith(t, () => fieldsFromFlags(limitFlags, { flushBytes: wrong }), /not a whole number/)
  }
})

t.test('JSON looked at as text keeps every digit', async (t) => {
  const body = '{"a":{"records":[0]},"records":[{"n":1.10},{"n":12345678901234567890,"s":"]}\\"["}],"z":null}'
  t.equal(valueText(body, 'records'), '[{"n":1.10},{"n":12345678901234567890,"s":"]}\\"["}]')
  t.equal(valueText(body, 'z'), 'null')
  t.equal(valueText(body, 'none'), null)
  t.same(elementTexts(' [ {"n":1.10} , 2 , "x,]" ] '), ['{"n":1.10}', '2', '"x,]"'])
  t.same(elementTexts('[]'), [])
  t.equal(singleLine('{\n  "a": 1\n}'), '{ "a": 1 }')
  t.equal(indented('{"a":[1.0,{}],"b":[]}'), '{\n  "a": [\n    1.0,\n    {}\n  ],\n  "b": []\n}')
  t.throws(() => valueText('{"a":', 'a'))
})

t.test('one view in every format', async (t) => {
  const view = {
    json: '{"list":[{"id":1,"n":12345678901234567890}]}',
    items: () => ['{"id":1,\n"n":12345678901234567890}'],
    names: () => ['one'],
    table: () => ({ columns: ['ID', 'STATE'], rows: [['1', 'blocked']] }),
  }
  t.equal(await render(view, 'json', { pretty: false, colours: false }), `${view.json}\n`)
  t.match(await render(view, 'json', { pretty: true, colours: false }), /\n {2}"list"/)
  t.equal(
    await render(view, 'ndjson', { pretty: false, colours: false }),
    '{"id":1, "n":12345678901234567890}\n',
  )
  t.equal(await render(view, 'name', { pretty: false, colours: false }), 'one\n')
  t.equal(
    await render(view, 'yaml', { pretty: false, colours: false }),
    'list:\n  - id: 1\n    n: 12345678901234567890\n',
  )
  t.equal(await render(view, 'table', { pretty: false, colours: false }), 'ID  STATE\n1   blocked\n')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour is a control sequence
  t.match(await render(view, 'table', { pretty: false, colours: true }), /\x1b\[31mblocked/)
  const hostile = {
    ...view,
    json: '{"a":"\u009b2J\u202e"}',
    items: () => ['"\u009b"'],
    names: () => ['a\u001b]0;x'],
  }
  t.equal(
    await render(hostile, 'json', { pretty: true, colours: false }),
    '{\n  "a": "\\u009b2J\\u202e"\n}\n',
    'on a terminal',
  )
  t.equal(await render(hostile, 'ndjson', { pretty: true, colours: false }), '"\\u009b"\n')
  t.equal(await render(hostile, 'name', { pretty: true, colours: false }), 'a\u{fffd}]0;x\n')
  t.equal(
    await render(hostile, 'json', { pretty: false, colours: false }),
    `${hostile.json}\n`,
    'elsewhere as it came',
  )
  const none = { ...view, table: () => ({ columns: ['ID'], rows: [], empty: 'nothing here' }) }
  t.equal(await render(none, 'table', { pretty: false, colours: false }), 'nothing here\n')
})

t.test('YAML, exports and pulled records on a terminal: escapes, and the same values', async (t) => {
  const acting = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/
  const value = {
    'k\u202e': 'a\u009b2J',
    plain: 'as it is',
    lines: 'one\ntwo \u0085',
    list: ['\u007f', '\u2028x', '\u2066\ud83d\ude00\u2069', 'ünï', '"\\u0041\u202e'],
  }
  const json = JSON.stringify(value)
  const view = { json, names: () => [], table: () => ({ columns: [], rows: [] }) }
  const shown = await render(view, 'yaml', { pretty: true, colours: false })
  t.notMatch(shown, acting)
  t.match(shown, 'plain: as it is', 'quoted only where it has to be')
  t.same(parse(shown), value)
  t.match(await render(view, 'yaml', { pretty: false, colours: false }), acting, 'elsewhere as it came')

  const pipe = { ...pipeDefaults, pipe_id: 'p', pipe_name: 'n', pipe_status: 'active' as const }
  const detail = {
    pipe: { ...pipe, pipe_description: 'a\u202eb', pipe_created_ts: '', pipe_updated_ts: '' },
    destinations: [],
    limits: null,
    allowed_origins: [],
    api_keys: [],
  }
  t.match(exportYaml([detail], true).yaml, '"a\\u202eb"')
  t.match(exportYaml([detail]).yaml, 'a\u202eb')
  t.same(parse(exportYaml([detail], true).yaml), parse(exportYaml([detail]).yaml))

  const record = '{"a":"\u009b2J\u202e"}'
  const message = {
    pipeId: '',
    destinationId: '',
    msgId: '',
    seq: 1,
    text: record,
    records: [record, record],
  }
  const escaped = '{"a":"\\u009b2J\\u202e"}\n'
  t.equal(messageText(message, 'ndjson', true), escaped + escaped)
  t.equal(messageText(message, 'json', true), escaped)
  t.equal(messageText(message, 'json'), `${record}\n`)
})

t.test('text of others cannot steer the terminal', async (t) => {
  t.equal(printableLines('a\x1b[2J\n  b\u202e'), 'a\u{fffd}[2J\n  b\u{fffd}')
  t.equal(printable('a\u202eb\u2028'), 'a\u{fffd}b\u{fffd}', 'nor turns text around')
  t.equal(printable('a\x1b[2Jb\x07\nc\u009b'), 'a\u{fffd}[2Jb\u{fffd} c\u{fffd}')
})

t.test('an error body becomes an exit code and a next step', async (t) => {
  const code = (status: number, error: string) =>
    new ApiFailure(status, { error, message: 'm' }, null).exitCode
  t.equal(code(401, 'unauthorized'), 4)
  t.equal(code(403, 'forbidden'), 4)
  t.equal(code(404, 'pipe_not_found'), 3)
  t.equal(code(404, 'no_blocking_message'), 6)
  t.equal(code(409, 'duplicate_pipe_name'), 5)
  t.equal(code(400, 'validation_error'), 2)
  t.equal(code(500, 'server_error'), 1)
  const failure = new ApiFailure(
    400,
    { error: 'validation_error', message: 'm', errors: { 'a.b': 'is wrong' } },
    null,
  )
  t.match(failure.message, /a\.b: is wrong/)
  t.equal(retryAfterMs('7', 0), 7000)
  t.equal(retryAfterMs('Thu, 01 Jan 1970 00:00:09 GMT', 1000), 8000)
  t.equal(retryAfterMs('soon', 0), null)
})

t.test('a 403 has the advice that fits its cause', async (t) => {
  for (const [message, advice] of [
    [
      'This key lacks the scope read.',
      /^use a key with the scope read: `pipectl keys create NAME --scope read`/,
    ],
    ['This key lacks the scope ingest.', /--scope ingest/],
    ['This key is limited to other pipes: use a key for this pipe.', /^use a key of this pipe/],
    ['The origin "https://a.example" is not allowed for this pipe.', /pipectl origins add/],
    [
      'This key expires, and a user or a setup link does not: use a key that does not expire.',
      /^use a key with the scope and the pipes/,
    ],
  ] as const)
    t.match(new ApiFailure(403, { error: 'forbidden', message }, null).hint, advice)
})

t.test('a 503 says why nothing is stored, for each reason of the contract', async (t) => {
  const failure = (reason: string) =>
    new ApiFailure(503, { error: 'buffer_unavailable', message: 'm.', details: { reason } }, null).message
  t.match(
    failure('low_disk_space'),
    /^m\. The daemon's disk is almost full: .*free space\. \(buffer_unavailable/,
  )
  t.match(failure('unheard_of'), 'm. Reason: unheard_of. (')
  const document = readFileSync(
    new URL('../../../openapi/management-v1.openapi.yaml', import.meta.url),
    'utf8',
  )
  const text = document.replaceAll(/\s+/g, ' ')
  const [described = ''] = /over_quota, low_disk_space.*?without a key are accepted/.exec(text) ?? []
  const names = described.match(/[a-z]+(_[a-z]+)+|closing/g) ?? []
  t.same(new Set(names), new Set(Object.keys(unavailableReasons)))
})

t.test('pull begins where neither a message is lost nor a rewind undone', async (t) => {
  t.equal(startAfter(7, null), 7, 'no state: the lane’s cursor')
  t.equal(startAfter(7, { doneSeq: 9, toldSeq: 7 }), 9, 'killed before the daemon was told')
  t.equal(startAfter(12, { doneSeq: 9, toldSeq: 7 }), 12, 'another consumer went on')
  t.equal(startAfter(3, { doneSeq: 9, toldSeq: 7 }), 3, 'the lane was rewound')
})

t.test('sizes, counts, times and names as people read them', async (t) => {
  t.equal(bytes(1536), '1.5 KiB')
  t.equal(bytes(12), '12 B')
  t.equal(count(1234567), '1,234,567')
  t.equal(duration(3 * 86_400 + 4 * 3600 + 5), '3d 4h')
  t.equal(duration(125), '2m 5s')
  t.equal(duration(0), '0s')
  t.match(
    ingestProgressLine(1000, 500, 50, { recordsPerSecond: 10, bytesPerSecond: 100 }),
    /█{12}░{12} 50% {2}50 records {2}10\/s {2}5s left/,
  )
  const now = new Date('2026-01-31T06:00:00.123Z')
  t.equal(nextName('default', now), 'default-20260131T060000')
  t.equal(nextName('default-20250101T000000', now), 'default-20260131T060000')
})
