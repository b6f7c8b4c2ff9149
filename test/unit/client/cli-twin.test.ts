import { execFileSync } from 'node:child_process'
import type { Command } from 'commander'
import t from 'tap'
import { parseColumn } from '../../../src/apps/cli/destinations/columns.ts'
import { buildProgram } from '../../../src/apps/cli/program.ts'
import {
  columnWord,
  command,
  destinationName,
  destinationOptions,
  limitWords,
  pipeOptions,
  quoted,
  tryTransformCommand,
} from '../../../src/apps/client/cli-twin.ts'
import { addSecretCommand, removeSecretCommand, sourceCommand } from '../../../src/apps/client/source-twin.ts'
import { geoFieldKeys, type PipeLimits, pipeDefaults } from '../../../src/contract/pipe.ts'
import type { GivenTransform } from '../../../src/contract/transform.ts'

/** As a shell would hand it to a program. */
function wordsOf(line: string): string[] {
  return execFileSync('sh', ['-c', `printf '%s\\0' ${line}`], { encoding: 'utf8' })
    .split('\0')
    .slice(0, -1)
}

const program = await buildProgram()

/** The command that a line names, and its options that this command does not have. */
function unknownOptions(line: string): string[] {
  const [, ...words] = wordsOf(line)
  let at: Command = program
  for (const word of words) at = at.commands.find((one) => one.name() === word) ?? at
  t.not(at, program, line)
  const known = new Set(at.options.flatMap((option) => [option.long, option.short]))
  return words.filter((word) => word.startsWith('--') && !known.has(word))
}

t.test('what a shell would read otherwise is quoted', async (t) => {
  const hostile = [`it's`, '$(rm -rf /)', 'two words', '`x`', '', '"', '\\', '*', '~', 'a;b']
  t.same(wordsOf(hostile.map(quoted).join(' ')), hostile)
})

t.test('the twins of every change are commands that there are', async (t) => {
  const geo = Object.fromEntries(geoFieldKeys.map((key) => [key, 'place']))
  const limits: PipeLimits = {
    pl_ingest_max_records_per_request: 1,
    pl_ingest_max_records_per_second: 1,
    pl_ingest_max_records_per_day: 1,
    pl_ingest_max_bytes_per_day: null,
    pl_delivery_max_records_per_flush: 1,
    pl_delivery_max_bytes_per_flush: 1,
    pl_delivery_max_seconds_per_flush: 1,
  }
  const destination = destinationOptions('destination_http_endpoint', {
    destination_config: {
      url: 'https://example.com/a?token=hidden',
      auth_header: 'Bearer x',
      headers: { 'X-A': 'b c' },
      secret_headers: { 'X-K': 'b c secret' },
      method: 'PUT',
    },
    destination_name: "o'brien",
    destination_max_retry_seconds: 5,
    flush: { max_records: 1, max_bytes: 2, max_seconds: 3 },
    rate: { requests_per_second: 2 },
    concurrency: 4,
  })
  const lines = [
    command('pipes', 'create', 'orders', ...pipeOptions({ ...pipeDefaults, ...geo })),
    command('pipes', 'update', 'orders', ...pipeOptions({ pipe_add_ingest_ts: false })),
    sourceCommand('orders', {
      pipe_source: { type: 'hmac', secrets: ['x'], header: 'x-sig', verify_token: 'x', id_header: null },
      pipe_source_headers: ['user-agent'],
      pipe_source_raw: true,
    }),
    sourceCommand('orders', { pipe_source: null, pipe_source_headers: [] }),
    addSecretCommand('orders'),
    removeSecretCommand('orders', 'oldest'),
    command('pipes', 'pause', 'orders'),
    command('pipes', 'delete', 'orders', '--yes'),
    command('limits', 'set', 'orders', ...limitWords(limits)),
    command('limits', 'clear', 'orders', '--yes'),
    command('destinations', 'create', 'orders', '--type', 'http-endpoint', ...destination),
    command(
      'destinations',
      'update',
      'orders/x',
      ...destinationOptions('destination_database', { columns: [] }),
    ),
    command('lanes', 'rewind', 'orders/x', '--to', 'earliest', '--yes'),
    command('lanes', 'skip', 'orders/x', '--yes'),
    command('keys', 'revoke', 'shop', '--yes'),
    command('users', 'create', 'ada@example.com', '--role', 'viewer'),
    command('users', 'password', 'ada@example.com'),
    command('users', 'role', 'ada@example.com', 'viewer'),
    command('users', 'delete', 'ada@example.com', '--yes'),
    command('users', 'setup-link', '--role', 'viewer'),
  ]
  for (const line of lines)
    t.same(
      unknownOptions(line).filter((one) => one !== '--yes'),
      [],
      line,
    )
  t.same(
    unknownOptions('pipectl pipes create orders --no-such-option'),
    ['--no-such-option'],
    'or it could not fail',
  )
  t.notMatch(lines.join('\n'), /Bearer x|b c secret|hidden/, 'no secret is in a command')
})

t.test('a column in one word is read back as it was', async (t) => {
  const columns = [
    { column_name: 'id', column_type: 'number', semantic_role: 'dedupe_id', source_field: 'id' },
    { column_name: 'key', column_type: 'string', semantic_role: 'dedupe_id' },
    { column_name: 'at', column_type: 'string', semantic_role: 'received_at' },
    { column_name: 'price', column_type: 'number', source_field: 'amount', nullable: false },
  ] as const
  for (const column of columns) t.same(parseColumn(columnWord(column)), column, columnWord(column))
})

t.test('a destination is named by pipe and name, or by its id where the name is not a word', async (t) => {
  t.equal(destinationName('orders', { destination_id: 'id', destination_name: 'farm' }), 'orders/farm')
  t.equal(
    destinationName('orders', { destination_id: 'id', destination_name: 'two words' }),
    'orders/two words',
  )
  t.equal(destinationName('orders', { destination_id: 'id', destination_name: 'a\u202eb' }), 'id')
})

t.test('a transform: filter and steps as they are, the salt never', (t) => {
  const map = [{ op: 'mask' as const, paths: ["it's"] }]
  const options = destinationOptions('destination_http_endpoint', {
    transform: { filter: 'record.a == "x"', map, mask_salt: 'of the test' },
  })
  t.strictSame(options, [
    ...['--filter', 'record.a == "x"'],
    ...['--map', '{"op":"mask","paths":["it\'s"]}'],
    ...['--secret', 'transform.mask_salt'],
  ])
  t.strictSame(destinationOptions('destination_nats', { transform: null }), ['--no-transform'])
  t.strictSame(unknownOptions(command('destinations', 'update', 'orders/sales', ...options)), [])
  t.end()
})

t.test('trying a transform: the stored one by its name, what else needs its salt with it', (t) => {
  const mask = [{ op: 'mask' as const, paths: ['a'] }]
  const stored = {
    ...{ destination_id: 'id', destination_name: 'sales' },
    transform: { filter: 'true', map: mask, mask_salt: '[redacted]' as const },
  }
  const tried = (...[from, transform, show = {}]: [typeof stored | null, GivenTransform, object?]) => {
    const line = tryTransformCommand('orders', from, transform, show)
    t.strictSame(unknownOptions(line), [], line)
    return wordsOf(line).slice(3).join(' ')
  }
  const step = '--map {"op":"mask","paths":["a"]}'
  const secret = '--secret transform.mask_salt'
  const same = { filter: 'true', map: mask }
  t.equal(tried(stored, same, { limit: 5, only: 'failed' }), 'orders/sales --limit 5 --only failed')
  t.equal(
    tried(stored, { ...same, mask_salt: 'of the test' }),
    `orders/sales --filter true ${step} ${secret}`,
  )
  t.equal(tried(stored, { filter: null, map: mask }), `orders/sales --filter  ${step}`)
  t.equal(tried(stored, { filter: 'false', map: [] }), 'orders --filter false', 'not with the stored steps')
  t.equal(tried(null, same), `orders --filter true ${step} ${secret}`)
  const unnamed = { ...stored, destination_name: 'a\u202eb' }
  t.equal(tried(unnamed, same), 'id')
  t.equal(tried(unnamed, { filter: 'false', map: mask }), `orders --filter false ${step} ${secret}`)
  t.end()
})

t.test('the command for a source has its settings and headers, and no secret', async (t) => {
  const secret = 'a secret value'
  const line = sourceCommand('orders', {
    pipe_source: { type: 'hmac', secrets: [secret], header: 'x-sig', verify_token: secret, id_header: null },
    pipe_source_headers: ['user-agent', 'x-topic'],
    pipe_source_raw: false,
  })
  t.equal(
    line,
    'pipectl pipes update orders --source hmac --source-set header=x-sig --source-header user-agent --source-header x-topic --no-source-raw',
  )
  t.equal(
    sourceCommand('orders', { pipe_source: null, pipe_source_headers: [] }),
    'pipectl pipes update orders --source none --source-header none',
  )
})
