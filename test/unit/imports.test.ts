import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

/**
 * Imports point one way: a module imports itself and the modules of its row, and every row names only modules above it. So the
 * table is also the order in which the source can be read. ARCHITECTURE.md says what each module holds.
 */
const root = new URL('../../src/', import.meta.url).pathname

const rows: [module: string, imports: string[]][] = [
  ['platform', []],
  ['contract', []],
  ['settings', ['platform', 'contract']],
  ['log', ['platform', 'contract']],
  ['destinations', ['platform', 'contract', 'settings', 'log']],
  ['metadata', ['platform', 'contract', 'log', 'destinations']],
  ['delivery', ['platform', 'contract', 'log', 'destinations', 'metadata']],
  ['ingest', ['platform', 'contract', 'log', 'metadata']],
  // Everything that only a cluster loads.
  ['cluster', ['platform', 'contract', 'settings', 'log', 'metadata', 'delivery', 'ingest']],
  // Opens log and metadata, of one machine or of a cluster.
  ['stores', ['platform', 'contract', 'settings', 'log', 'metadata', 'cluster']],
  // The replica in object storage, of one machine.
  ['replica', ['platform', 'contract', 'settings', 'log', 'destinations', 'metadata']],
  [
    'observe',
    [
      ...['platform', 'contract', 'settings', 'log', 'destinations', 'metadata', 'delivery'],
      'ingest',
      'cluster',
    ],
  ],
  // Jobs that find and delete personal data.
  ['privacy', ['platform', 'contract', 'log', 'metadata']],
  [
    'api',
    [
      ...['platform', 'contract', 'settings', 'log', 'destinations', 'metadata', 'delivery'],
      'ingest',
      'observe',
    ],
  ],
  [
    'maintenance',
    [
      ...['platform', 'contract', 'settings', 'log', 'destinations', 'metadata', 'delivery'],
      ...['ingest', 'cluster', 'stores', 'replica', 'api'],
    ],
  ],
  [
    'daemon',
    [
      ...['platform', 'contract', 'settings', 'log', 'destinations', 'metadata', 'delivery', 'ingest'],
      ...['cluster', 'stores', 'replica', 'observe', 'privacy', 'api', 'maintenance'],
    ],
  ],
  ['apps/client', ['platform', 'contract']],
  ['apps/tui', ['platform', 'contract', 'apps/client']],
  // Its snippets are the programs of examples/.
  ['apps/dashboard', ['platform', 'contract', 'apps/client', '../examples']],
  [
    'apps/cli',
    [...['platform', 'contract', 'settings', 'apps/client', 'apps/tui'], 'metadata', 'maintenance', 'daemon'],
  ],
]
const allowed = new Map(rows)

/** Packages that only one place may know. */
const packageHomes: Record<string, RegExp> = {
  'hyper-express': /^api\/http\/uws\/engine\.ts$/,
  'better-sqlite3': /^(log\/segments|metadata\/sqlite|destinations\/sqlite|maintenance)\//,
  kysely: /^(metadata|cluster|stores|maintenance\/migrate)\//,
  pg: /^(destinations|cluster)\/postgresql\//,
  '@nats-io/transport-node': /^(destinations|cluster)\/nats\//,
  '@nats-io/jetstream': /^cluster\/(nats|jetstream)\//,
  mysql2: /^destinations\/mysql\//,
  '@aws-sdk/client-s3': /^(destinations|replica|apps\/cli\/ingest)\//,
  hyparquet: /^apps\/cli\/ingest\/parquet-/,
  'hyparquet-compressors': /^apps\/cli\/ingest\/parquet-reader\.ts$/,
  maxmind: /^ingest\/geo\.ts$/,
  ink: /^apps\/tui\//,
  react: /^apps\/(tui|dashboard)\//,
  'react-dom': /^apps\/dashboard\//,
  '@tanstack/react-query': /^apps\/dashboard\//,
  '@radix-ui/react-dialog': /^apps\/dashboard\/ui\//,
  '@radix-ui/react-dropdown-menu': /^apps\/dashboard\/app\//,
  uplot: /^apps\/dashboard\/ui\/chart\.tsx$/,
  wouter: /^apps\/dashboard\//,
  commander: /^apps\/cli\//,
  pino: /^platform\/log\.ts$/,
  'pino-pretty': /^platform\/log\.ts$/,
  '@marcbachmann/cel-js': /^delivery\/transform\/compile\.ts$/,
  re2js: /^(delivery\/transform|ingest\/schema)\/linear-pattern\.ts$/,
  'prom-client': /^observe\/metrics\//,
  typebox: /^(contract|cluster|api\/management)\//,
}

interface Import {
  from: string
  /** A path below src/, or a package's name. */
  to: string
  isPackage: boolean
  typeOnly: boolean
}

const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) => /\.tsx?$/.test(file))
const imports = files.flatMap(importsOf)

function importsOf(file: string): Import[] {
  const text = readFileSync(path.join(root, file), 'utf8')
  const pattern =
    /(?:^|\n)\s*(?:import|export)\s+(type\s)?[^'"\n;]*?(?:\{[^}]*\}\s*)?(?:from\s+)?['"]([^'"]+)['"]|import\(['"]([^'"]+)['"]\)/g
  return [...text.matchAll(pattern)].map((match) => {
    const target = match[2] ?? match[3] ?? ''
    const isPackage = !target.startsWith('.')
    return {
      from: file,
      to: isPackage ? packageName(target) : path.join(path.dirname(file), target),
      isPackage,
      typeOnly: match[1] !== undefined,
    }
  })
}

function packageName(target: string): string {
  return target.startsWith('@') ? target.split('/').slice(0, 2).join('/') : (target.split('/')[0] ?? '')
}

function mayImport(one: Import): boolean {
  const module = moduleOf(one.from)
  return moduleOf(one.to) === module || (allowed.get(module) ?? []).includes(moduleOf(one.to))
}

function moduleOf(file: string): string {
  const [module = '', part = ''] = file.split('/')
  return module === 'apps' || module === '..' ? `${module}/${part}` : module
}

t.test('the reading of imports finds them (or the tests below could not fail)', async (t) => {
  t.ok(files.length > 50)
  t.ok(imports.some((one) => one.from === 'daemon/daemon.ts' && one.to === 'maintenance/lock.ts'))
  t.notOk(mayImport({ from: 'apps/cli/x.ts', to: 'log/buffer.ts', isPackage: false, typeOnly: false }))
  t.notOk(mayImport({ from: 'contract/x.ts', to: 'api/http/route.ts', isPackage: false, typeOnly: true }))
})

t.test('every file is in a module, and a row names only modules above it', async (t) => {
  const names = rows.map(([module]) => module)
  t.same(new Set(files.map(moduleOf)), new Set(names))
  for (const [index, [module, list]] of rows.entries())
    t.same(
      list.filter((one) => !one.startsWith('../') && !names.slice(0, index).includes(one)),
      [],
      module,
    )
})

t.test('every module imports only what the table allows', async (t) => {
  const wrong = imports.filter((one) => !one.isPackage && !mayImport(one))
  t.same(
    wrong.map((one) => `${one.from} imports ${one.to}`),
    [],
  )
})

t.test('every package with a home is imported there alone', async (t) => {
  const wrong = imports.filter((one) => one.isPackage && packageHomes[one.to]?.test(one.from) === false)
  t.same(
    wrong.map((one) => `${one.from} imports ${one.to}`),
    [],
  )
})

t.test('browsers load of the contract only what has no schemas', async (t) => {
  const loaded = imports.filter(
    (one) => /^apps\/(dashboard|client)\//.test(one.from) && one.to.startsWith('contract/') && !one.typeOnly,
  )
  const light = [
    ...['contract/alert-words.ts', 'contract/destination-words.ts', 'contract/is-object.ts'],
    ...['contract/destination-secrets.ts', 'contract/operation-paths.ts', 'contract/ready-words.ts'],
    ...['contract/client-ip.ts', 'contract/record-condition.ts', 'contract/source-words.ts'],
    'contract/replica-words.ts',
    ...['contract/schema-types.ts', 'contract/record-schema.ts', 'contract/schema-words.ts'],
    ...['contract/secret-url.ts', 'contract/state-words.ts', 'contract/transform-words.ts'],
    ...[
      'contract/destinations/config-field.ts',
      'contract/destinations/connection-url.ts',
      'contract/destinations/lane-facts.ts',
    ],
  ]
  t.ok(loaded.length > 0)
  t.same(
    loaded.filter((one) => !light.includes(one.to)).map((one) => `${one.from} loads ${one.to}`),
    [],
  )
})

t.test('there is no cycle of imports', async (t) => {
  const graph = new Map<string, string[]>()
  for (const one of imports) {
    if (!one.isPackage) graph.set(one.from, [...(graph.get(one.from) ?? []), one.to])
  }
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (file: string, trail: string[]) => {
    if (trail.includes(file)) {
      cycles.push([...trail.slice(trail.indexOf(file)), file].join(' → '))
      return
    }
    if (done.has(file)) return
    for (const next of graph.get(file) ?? []) visit(next, [...trail, file])
    done.add(file)
  }
  for (const file of graph.keys()) visit(file, [])
  t.same(cycles, [])
})

t.test('the lane and everything pure know no threads', async (t) => {
  const threads = imports.filter((one) => one.to === 'node:worker_threads').map((one) => one.from)
  const allowedFiles =
    /^(daemon\/(threads\/|daemon\.ts)|observe\/alerts\/post|stores\/open-log|log\/segments\/|cluster\/jetstream\/open-buffer|api\/http\/release-buffer|platform\/(threads|thread-host|thread-calls))/
  t.same(
    threads.filter((file) => !allowedFiles.test(file)),
    [],
  )
  t.notOk(threads.includes('delivery/lane.ts'))
})
