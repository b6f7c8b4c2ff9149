/** Which destination of a workspace a file means: by name, else by target, else by kind; what cannot be told is refused. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { initialLaneStatus } from '../../../src/api/management/destinations.ts'
import { declaredPipes } from '../../../src/apps/cli/manifest/document.ts'
import { foundUnnamed, planSteps } from '../../../src/apps/cli/manifest/plan.ts'
import { readYamlFile } from '../../../src/apps/cli/manifest/yaml-file.ts'
import type { PipeDetail } from '../../../src/apps/client/client.ts'
import { Failure } from '../../../src/apps/client/failure.ts'
import type { Destination } from '../../../src/contract/destination.ts'

type Config = Record<string, unknown>
const table = (table: string): Config => ({ host: 'db', database: 'shop', username: 'u', table })

function stored(destination_name: string, config: Config, type = 'destination_database'): Destination {
  return {
    destination_id: `00000000-0000-4000-8000-${destination_name.length.toString().padStart(12, '0')}`,
    pipe_id: 'p',
    destination_type: type as Destination['destination_type'],
    destination_status: 'active',
    destination_max_retry_seconds: 86_400,
    destination_config: { ...config, ...(type === 'destination_database' ? { password: '[redacted]' } : {}) },
    columns: [],
    ...{ destination_name, flush: null, rate: null, on_permanent_error: 'block' as const, tls_pin: null },
    ...{ destination_created_ts: '', destination_updated_ts: '' },
    lane: initialLaneStatus('active'),
  }
}

const pull = (name: string) => stored(name, {}, 'destination_pull')
const hook = (name: string, url: string) => stored(name, { url }, 'destination_http_endpoint')

interface Declared {
  name?: string | null
  type?: string
  config: Config
}
const database = (name: string | undefined, config: Config): Declared => ({
  ...(name === undefined ? {} : { name }),
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of the file
  config: { ...config, password: '${PASSWORD}' },
})
const endpoint = (name: string | undefined, url: string): Declared => ({
  ...{ ...(name === undefined ? {} : { name }), type: 'destination_http_endpoint', config: { url } },
})
const pulled = (name?: string): Declared => ({
  ...{ ...(name === undefined ? {} : { name }), type: 'destination_pull', config: {} },
})

const directory = t.testdir()
let files = 0

/** The summaries of the plan, and what was found without a name. */
function plan(declared: Declared[], existing: Destination[], prune = false) {
  const file = path.join(directory, `${files++}.yaml`)
  const destinations = declared.map(({ name, type = 'destination_database', config }) => ({
    ...(name === undefined ? {} : { destination_name: name }),
    destination_type: type,
    destination_config: config,
  }))
  writeFileSync(file, JSON.stringify({ pipes: [{ pipe_name: 'orders', destinations }] }))
  const pipes = declaredPipes(readYamlFile(file, { PASSWORD: 'pw' }))
  const detail = { pipe: { pipe_name: 'orders' }, destinations: existing, limits: null, allowed_origins: [] }
  const details = [detail as unknown as PipeDetail]
  const steps = planSteps(pipes, details, { prune, updateSecrets: false })
  return { steps: steps.map((step) => step.summary), unnamed: foundUnnamed(pipes, details) }
}

function refused(declared: Declared[], existing: Destination[]): Failure {
  try {
    plan(declared, existing, true)
  } catch (error) {
    if (error instanceof Failure) return error
    throw error
  }
  throw new Error('it was not refused')
}

t.test('of the same name, another host, table or URL is an update', async (t) => {
  const existing = [stored('warehouse', table('orders')), hook('hook', 'https://a.example/x')]
  const { steps } = plan(
    [database('warehouse', { ...table('orders2'), host: 'db2' }), endpoint('hook', 'https://b.example/y')],
    existing,
    true,
  )
  t.strictSame(steps, [
    '~ destination orders/warehouse: host "db" → "db2", table "orders" → "orders2"; password sent again',
    '~ destination orders/hook: url "https://a.example/x" → "https://b.example/y"',
  ])
})

t.test('names win over targets: two that swap targets are changed, none is made or deleted', async (t) => {
  const existing = [stored('a', table('x')), stored('b', table('y'))]
  const { steps } = plan([database('a', table('y')), database('b', table('x'))], existing, true)
  t.strictSame(steps, ['~ destination orders/a: table "x" → "y"', '~ destination orders/b: table "y" → "x"'])
})

t.test('another name with the same target is a rename', async (t) => {
  const existing = [stored('database', table('orders')), stored('other', table('items'))]
  t.strictSame(
    plan([database('warehouse', table('orders')), database('other', table('items'))], existing, true).steps,
    ['~ destination orders/database: destination_name "database" → "warehouse"'],
  )
})

t.test(
  'another name and another target is another destination; without --prune the one of before stays',
  async (t) => {
    const existing = [stored('old', table('orders'))]
    const declared = [database('new', table('orders2'))]
    t.strictSame(plan(declared, existing).steps, ['+ destination orders/new (database, db/shop orders2)'])
    t.strictSame(plan(declared, existing, true).steps, [
      '+ destination orders/new (database, db/shop orders2)',
      '- destination orders/old (database, db/shop orders)',
    ])
  },
)

t.test('pull destinations are alike but for their names: a new name is a new one', async (t) => {
  t.strictSame(plan([pulled('audit')], [pull('pull')]).steps, ['+ destination orders/audit (pull, pull)'])
})

t.test('another type under the same name is refused, and says what to do', async (t) => {
  const failure = refused(
    [endpoint('warehouse', 'https://a.example/')],
    [stored('warehouse', table('orders'))],
  )
  t.match(failure, {
    exitCode: 2,
    message: /^orders\/warehouse is a database, but a http-endpoint in the file: .* cannot be changed$/,
    hint: /destination_name of its own; .*pipectl destinations delete orders\/warehouse/,
  })
})

t.test('a name whose target another one takes over is refused: renamed, or changed?', async (t) => {
  const declared = [database('warehouse', table('orders')), database('database', table('orders2'))]
  const failure = refused(declared, [stored('database', table('orders'))])
  t.match(failure, {
    message: /gives the target of orders\/database to warehouse/,
    hint: /pipectl destinations update orders\/database --name warehouse/,
  })
})

t.test('files without names: found by target, then by kind where one is left on both sides', async (t) => {
  const existing = [
    stored('database', table('orders')),
    stored('database-2', table('items')),
    pull('pull'),
    pull('pull-2'),
    hook('http-endpoint', 'https://a.example/x'),
    hook('http-endpoint-2', 'https://a.example/x'),
  ]
  const declared = [
    database(undefined, table('items2')),
    database(undefined, table('orders')),
    pulled(),
    pulled(),
    endpoint(undefined, 'https://a.example/x'),
    endpoint(undefined, 'https://a.example/x'),
  ]
  const { steps, unnamed } = plan(declared, existing, true)
  t.strictSame(steps, ['~ destination orders/database-2: table "items" → "items2"'])
  t.strictSame(unnamed, [
    'orders/database (by its target)',
    'orders/pull (by its target)',
    'orders/pull-2 (by its target)',
    'orders/http-endpoint (by its target)',
    'orders/http-endpoint-2 (by its target)',
    'orders/database-2 (by its kind)',
  ])
  t.strictSame(plan([...declared, pulled()], existing).steps.slice(1), ['+ destination orders (pull, pull)'])
  t.strictSame(
    plan([{ ...pulled(), name: null }, pulled()], [pull('a'), pull('b')]).steps,
    [],
    'null is no name',
  )
})

t.test('one without a name that may be new or a change of several is refused, not guessed', async (t) => {
  const existing = [stored('a', table('x')), stored('b', table('y'))]
  const failure = refused([database(undefined, table('z'))], existing)
  t.match(failure, {
    exitCode: 2,
    message:
      /no destination_name: a new database of orders, or a change of one of these\?\n {2}orders\/a {2}db\/shop x\n/,
    hint: /add destination_name/,
  })
  t.match(refused([pulled()], [pull('a'), pull('b')]), { message: /a new pull/ })
  t.strictSame(plan([database('c', table('z'))], existing).steps, [
    '+ destination orders/c (database, db/shop z)',
  ])
})

t.test('a name that is there twice is a mistake of the file', async (t) => {
  t.throws(() => plan([pulled('a'), pulled('a')], []), { message: /line 1: destination a occurs twice/ })
  t.throws(() => plan([pulled('a/b')], []), { message: /destination_name: must not contain a slash/ })
})
