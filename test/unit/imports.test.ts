import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

/**
 * Imports point one way: contract ← ports and pure rules ← use cases ← http ← daemon. A folder may import itself, the
 * folders of its row, and files named there. Adapters are imported by the composition root and thread entries alone.
 */
const root = new URL('../../src/', import.meta.url).pathname
const everywhere = [
  'config.ts',
  'at-most.ts',
  'deadline.ts',
  'error-code.ts',
  'first-fit.ts',
  'thread-error.ts',
  'histogram.ts',
  'quantities.ts',
  'server-urls.ts',
  'settings.ts',
  'log.ts',
  'node-bugs.ts',
  'storage-error.ts',
  'fsync.ts',
  'version.ts',
]

const allowed: Record<string, string[]> = {
  contract: [],
  nats: [],
  buffer: ['contract', 'nats'],
  transform: ['contract', 'buffer/record-text.ts'],
  destinations: ['contract', 'buffer/buffer.ts', 'buffer/record-text.ts', 'nats/sign-in.ts', 'tls/pem.ts'],
  metadata: [
    'contract',
    'buffer/key-store.ts',
    'cluster/cluster-store.ts',
    'delivery/lane-ownership.ts',
    'delivery/lane-state.ts',
    'delivery/parked.ts',
    'directory/directory.ts',
  ],
  directory: ['contract', 'metadata/store.ts', 'metadata/key-tokens.ts'],
  ingest: ['contract', 'directory', 'buffer/buffer.ts', 'buffer/record-text.ts', 'metadata/store.ts'],
  delivery: [
    'contract',
    'buffer/buffer.ts',
    'buffer/open.ts',
    'buffer/record-text.ts',
    'destinations/driver.ts',
    'destinations/descriptors.ts',
    'metadata/store.ts',
    'transform/thread-protocol.ts',
    'transform/transform-threads.ts',
  ],
  history: ['contract', 'buffer/buffer.ts', 'buffer/open.ts', 'buffer/record-text.ts'],
  management: [
    'contract',
    'buffer/buffer.ts',
    'delivery/batch.ts',
    'delivery/delivery.ts',
    'delivery/lane-status.ts',
    'history/history.ts',
    'destinations/driver.ts',
    'destinations/descriptors.ts',
    'destinations/object-store/parquet-columns.ts',
    'destinations/sql/identifiers.ts',
    'directory/principal.ts',
    'metadata/changes.ts',
    'metadata/store.ts',
    'metadata/key-tokens.ts',
    'metadata/password-hash.ts',
    'metadata/session-tokens.ts',
    'transform/compile.ts',
  ],
  'ingest-threads': ['contract', 'buffer/buffer.ts', 'directory', 'http', 'ingest', 'metadata/changes.ts'],
  // Certificates of the listeners.
  tls: [],
  http: [
    'contract',
    'tls/certificate-files.ts',
    'tls/listener-certificate.ts',
    'buffer/record-text.ts',
    'directory',
    'ingest',
    'management',
    'delivery/delivery.ts',
    'history/history.ts',
    'metadata/key-tokens.ts',
    'metadata/session-tokens.ts',
  ],
  'data-dir': [
    'contract',
    'metadata',
    'nats',
    'buffer',
    'destinations/driver.ts',
    'destinations/egress-addresses.ts',
    'destinations/target-check.ts',
    'directory/principal.ts',
    'ingest/geo.ts',
    'management/api-keys.ts',
    'management/users.ts',
    'part-settings.ts',
    'tls/certificate-files.ts',
  ],
  metrics: [
    'contract',
    'cluster/cluster-view.ts',
    'buffer/buffer.ts',
    'delivery/lane-service.ts',
    'ingest/observed.ts',
    'ingest/totals.ts',
  ],
  alerts: [
    'contract',
    'buffer/buffer.ts',
    'delivery/delivery.ts',
    'destinations/driver.ts',
    'destinations/http-endpoint/post.ts',
    'metadata/store.ts',
  ],
  // What nodes of a cluster settle among themselves; it knows the stores by their ports alone.
  cluster: [
    'contract',
    'nats',
    'buffer/buffer.ts',
    'buffer/key-store.ts',
    'delivery/delivery-proxy.ts',
    'delivery/delivery.ts',
    'delivery/lane-ownership.ts',
    'delivery/lane-service.ts',
    'directory/directory.ts',
    'ingest/cluster-quota.ts',
    'ingest/quota-state.ts',
    'ingest/quota.ts',
    'ingest/shared-counters.ts',
    'ingest/turns.ts',
    'metadata/changes.ts',
    'metadata/store.ts',
  ],
  client: ['contract'],
  tui: ['contract', 'client'],
  cli: ['contract', 'client', 'tui'],
  dashboard: ['contract', 'client'],
  // One file, for pages of others.
  browser: [],
}

/** Files that put parts together, or work on a data directory itself, and so see more than their folder. */
const composing: Record<string, string[] | 'everything'> = {
  'daemon.ts': 'everything',
  'housekeeping.ts': 'everything',
  'open-alerts.ts': 'everything',
  'open-certificates.ts': 'everything',
  'open-cluster.ts': 'everything',
  'open-ingest.ts': 'everything',
  'open-listeners.ts': 'everything',
  'open-stores.ts': 'everything',
  'part-settings.ts': [
    'buffer/buffer.ts',
    'buffer/open.ts',
    'contract',
    'data-dir/cluster-settings.ts',
    'data-dir/data-dir.ts',
    'destinations/driver.ts',
    'http/server.ts',
    'metadata/store.ts',
    'tls/certificate-files.ts',
  ],
  'service-manager.ts': [],
  'settings.ts': ['contract/resource-limits.ts'],
  'shutdown-steps.ts': [],
  'start-context.ts': ['shutdown-steps.ts'],
  'start-when-reachable.ts': ['buffer/buffer.ts'],
  'start-when-space.ts': ['service-manager.ts'],
  'workspace-count.ts': ['metadata/store.ts'],
  'alerts/post-thread.ts': 'everything',
  'delivery/delivery-thread.ts': 'everything',
  'delivery/driver-thread.ts': 'everything',
  'history/history-thread.ts': 'everything',
  'ingest-threads/ingest-thread.ts': 'everything',
  'data-dir/nodes.ts': ['cluster', 'delivery/stored-lanes.ts', 'part-settings.ts'],
  'cli/main.ts': ['cli'],
  'cli/config.ts': ['data-dir/egress.ts'],
  'cli/daemon-commands.ts': ['daemon.ts', 'data-dir', 'metadata/store.ts'],
  'cli/data-dir-commands.ts': ['data-dir'],
  'cli/nodes.ts': ['data-dir/nodes.ts'],
  'cli/verify.ts': ['data-dir'],
  'cli/repair.ts': ['data-dir'],
  'cli/version.ts': ['data-dir/format-check.ts'],
  'cli/migrate.ts': ['data-dir'],
  'cli/keys.ts': ['data-dir/keys.ts'],
  'cli/users.ts': ['data-dir/users.ts'],
  'cli/failure.ts': ['data-dir/errors.ts'],
}

/** Packages that only one place may know. */
const packageHomes: Record<string, RegExp> = {
  'hyper-express': /^http\/uws\/engine\.ts$/,
  'better-sqlite3': /^(buffer\/segments\/|metadata\/sqlite\/|data-dir\/)/,
  kysely: /^metadata\//,
  pg: /^(destinations|metadata)\/postgresql\//,
  '@nats-io/transport-node': /^nats\//,
  '@nats-io/jetstream': /^(nats|buffer\/jetstream)\//,
  mysql2: /^destinations\/mysql\//,
  '@aws-sdk/client-s3': /^destinations\//,
  maxmind: /^ingest\/geo\.ts$/,
  ink: /^tui\//,
  react: /^(tui|dashboard)\//,
  'react-dom': /^dashboard\//,
  '@tanstack/react-query': /^dashboard\//,
  '@radix-ui/react-dialog': /^dashboard\/ui\//,
  '@radix-ui/react-dropdown-menu': /^dashboard\/app\//,
  uplot: /^dashboard\/ui\/chart\.tsx$/,
  wouter: /^dashboard\//,
  commander: /^cli\//,
  pino: /^log\.ts$/,
  'pino-pretty': /^log\.ts$/,
  '@marcbachmann/cel-js': /^transform\/compile\.ts$/,
  re2js: /^transform\/linear-pattern\.ts$/,
  'prom-client': /^metrics\//,
  typebox: /^(contract|management)\//,
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
  const special = composing[one.from]
  if (special === 'everything') return true
  const folder = one.from.split('/')[0] ?? ''
  const list = [folder, ...everywhere, ...(allowed[folder] ?? []), ...(special ?? [])]
  return list.some((entry) => one.to === entry || one.to.startsWith(`${entry}/`))
}

t.test('the reading of imports finds them (or the tests below could not fail)', async (t) => {
  t.ok(files.length > 50)
  t.ok(imports.some((one) => one.from === 'daemon.ts' && one.to === 'buffer/open.ts'))
  t.notOk(mayImport({ from: 'cli/x.ts', to: 'buffer/buffer.ts', isPackage: false, typeOnly: false }))
  t.notOk(mayImport({ from: 'contract/x.ts', to: 'http/route.ts', isPackage: false, typeOnly: true }))
})

t.test('every folder imports only what the table allows', async (t) => {
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
    (one) => /^(dashboard|client)\//.test(one.from) && one.to.startsWith('contract/') && !one.typeOnly,
  )
  const light = [
    ...['contract/alert-words.ts', 'contract/destination-words.ts', 'contract/is-object.ts'],
    ...['contract/destination-secrets.ts', 'contract/lane-failing.ts', 'contract/secret-url.ts'],
    'contract/transform-words.ts',
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
    /^(alerts\/post|buffer\/(open\.ts|segments\/|jetstream\/open-buffer)|delivery\/(delivery-(thread|proxy|protocol|worker)|driver-thread|isolated-driver)|ingest\/(body-parsers|parser-thread)|ingest-threads\/ingest-(thread|threads|thread-proxy)|history\/history-(proxy|thread)|http\/free-now|transform\/transform-threads?|daemon\.ts)/
  t.same(
    threads.filter((file) => !allowedFiles.test(file)),
    [],
  )
  t.notOk(threads.includes('delivery/lane.ts'))
})
