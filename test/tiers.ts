/**
 * Which test files `npm test` runs, and which are left to `npm run test:full`.
 *
 * The fast tier exercises every operation, error code, driver and guarantee once, on one HTTP engine. The full tier runs
 * the groups below: what repeats the fast tier in another environment, takes minutes, or needs tools that only
 * test/support/install-tools.sh installs. It takes an hour on two cores and runs before each release.
 *
 * `npm run test:change` is the part of it that each change has to pass as well: what can lose, repeat or damage a record.
 * It needs no tools.
 *
 * Files are named by a prefix of their path below test/, without the extension: `api/head`, `unit/contract/`.
 */

interface Group {
  files: readonly string[]
  /** Files of the group that the fast tier runs instead. */
  fast?: readonly string[]
  /** Files of the group that each change has to pass. */
  change?: readonly string[]
  /** Repeats files of other groups, or of the fast tier, in this environment. */
  env?: Readonly<Record<string, string>>
  /** Runs on the Node.js of the packages (support/node24.ts), and not on the machine's own. */
  node24?: true
}

/** In the order of their start. The slowest are first, so that none of them is the last that the others wait for. */
export const groups: Readonly<Record<string, Group>> = {
  soak: { files: ['world/soak', 'world/lanes', 'world/backfill', 'api/ingest-memory'] },
  cluster: {
    files: [
      ...['world/cluster/', 'unit/cluster/', 'unit/delivery/lane-port-cluster', 'unit/buffer/jetstream-'],
      ...['unit/metadata/stopped-owner', 'unit/cli/nodes', 'unit/nats/servers'],
    ],
    fast: ['world/cluster/one-node', 'unit/buffer/jetstream-port'],
    change: [
      ...['world/cluster/three-nodes', 'unit/cluster/leases', 'unit/delivery/lane-port-cluster'],
      ...['unit/buffer/jetstream-faults', 'unit/buffer/jetstream-append', 'unit/metadata/stopped-owner'],
    ],
  },
  packages: { files: ['package/'], change: ['package/licenses'] },
  /** Products in several versions: docs/compatibility.md has a row for each. */
  compat: { files: ['compat/'] },
  migrate: { files: ['migrate/'], change: ['migrate/exactly-once'] },
  browser: { files: ['browser/'], change: ['browser/pages'] },
  sdk: { files: ['sdk/'], fast: ['sdk/js.'] },
  rogue: {
    files: [
      ...['unit/destinations/rogue-', 'unit/destinations/parks-rejected', 'unit/destinations/hostile-values'],
      'unit/destinations/sqlite-query',
      ...['unit/transform/hostile-threads', 'api/management-worst-bodies'],
    ],
  },
  'postgresql-metadata': {
    files: ['unit/metadata/on-postgresql', 'unit/metadata/postgresql', 'unit/metadata/cluster-postgresql'],
    change: ['unit/metadata/postgresql', 'unit/metadata/cluster-postgresql'],
  },
  crash: {
    files: [
      ...[
        'crash/',
        'world/shutdown',
        'world/standby',
        'world/unfinished-init',
        'world/poison',
        'unit/buffer/kill',
      ],
      ...['unit/delivery/quarantine', 'unit/delivery/worker-death.'],
    ],
    fast: ['crash/kill'],
    change: ['crash/', 'unit/buffer/kill'],
    node24: true,
  },
  faults: {
    files: ['world/faults/steps/', 'world/faults/corruption/'],
    change: [
      'world/faults/corruption/',
      ...['compaction', 'drop', 'first-start', 'roll.', 'start-', 'stop'].map(
        (name) => `world/faults/steps/${name}`,
      ),
    ],
  },
  'power-cut': {
    files: ['world/faults/power-cut/'],
    change: ['restarts', 'rolls', 'whole-directory'].map((name) => `world/faults/power-cut/${name}`),
  },
  guides: {
    files: ['docs/guides/', 'docs/monitoring'],
    fast: ['docs/guides/quick-start'],
  },
  replica: {
    files: [
      ...['world/replica', 'world/standby', 'unit/buffer/log-copy', 'unit/metadata/row-changes-kill'],
      ...['unit/metadata/row-changes-random', 'unit/replica/conformance'],
    ],
    change: ['world/replica.', 'unit/replica/conformance', 'unit/metadata/row-changes-kill'],
  },
  examples: { files: ['world/examples-', 'docs/signatures'] },
  tools: {
    files: [
      ...['unit/cli/completion', 'docs/man-page', 'docs/unit-file'],
      ...['unit/cli/backup', 'unit/cli/ingest-resume', 'unit/cli/pull', 'unit/cli/secrets', 'unit/cli/tail'],
      ...['unit/cli/users', 'world/alerts', 'world/ledger-servers'],
      ...['api/auto-columns', 'api/client-ip', 'world/pipe-retention'],
    ],
  },
  damage: {
    files: [
      ...[
        'world/bad-sectors',
        'world/damaged-',
        'world/full-disk',
        'world/storage-errors',
        'world/repair',
        'world/verify',
      ],
      ...['world/earlier-', 'world/containment', 'world/parquet-thread', 'world/stores-disagree'],
      ...['world/victims'],
      ...['world/clock', 'unit/buffer/page-reader', 'unit/buffer/damaged', 'unit/buffer/compaction'],
    ],
    fast: ['world/full-disk-commands'],
    change: [
      ...['damaged-log-end', 'earlier-', 'full-disk.', 'verify'].map((name) => `world/${name}`),
      'unit/buffer/damaged.',
    ],
  },
  certificates: {
    files: ['api/tls', 'world/tls-pin', 'world/database-certificates'],
    change: ['api/tls.'],
  },
  /**
   * The tests that Node.js and the native addons can break: operations, kills, the log on SQLite, the scanner, the
   * drivers.
   */
  node24: {
    env: {},
    node24: true,
    files: [
      ...['destinations', 'http', 'lanes', 'limits', 'parked', 'pipes'].map(
        (name) => `api/management-${name}.`,
      ),
      ...['api/ingest.', 'api/pull.', 'api/parked', 'crash/kill.', 'unit/node-bugs.'],
      ...['bad-sector', 'damaged.', 'idempotency', 'open-', 'port', 'sealing', 'segments'].map(
        (name) => `unit/buffer/${name}`,
      ),
      ...['unit/http/', 'unit/ingest/'],
      ...['unit/destinations/http', 'unit/destinations/mysql', 'unit/destinations/object-store'],
    ],
  },
  engines: {
    env: { TEST_HTTP_ENGINE: 'node' },
    node24: true,
    files: [
      ...[
        'api/connections.',
        'api/dashboard-session',
        'api/docs',
        'api/framing',
        'api/head',
        'api/http-errors',
      ],
      ...['api/http.', 'api/ingest-at-once', 'api/ingest-from-pages', 'api/ingest-hostile', 'api/messages'],
      'api/tail',
    ],
  },
  workers: { files: ['world/ingest-workers'], node24: true },
  threads: {
    env: { TEST_INGEST_WORKERS: '3' },
    files: [
      ...['api/connections.', 'api/http.', 'api/ingest-from-pages', 'api/ingest-limits', 'api/ingest-memory'],
      ...['api/ingest.', 'api/tail', 'crash/stop'],
    ],
  },
}

/** Test files that start no server and change nothing that the next one sees: those of a group share one process. */
const together: Readonly<Record<string, { files: readonly string[]; alone?: readonly string[] }>> = {
  contract: { files: ['unit/contract/', 'unit/management/'] },
  client: { files: ['unit/client/'] },
  // A choice of the process, and the memory of one.
  http: { files: ['unit/http/'], alone: ['unit/http/engine-choice', 'unit/http/release-buffer'] },
  // Kills.
  metadata: { files: ['unit/metadata/'], alone: ['unit/metadata/lane-store', 'unit/metadata/open'] },
  delivery: {
    files: [
      ...['attempt-limits', 'buffer-unavailable', 'drift', 'failing-lanes', 'filtered-counts'],
      ...['lane-commands', 'lane-delivers', 'lane-history', 'many-requests', 'memory-buffer', 'next-range'],
      ...['ownership', 'parks-rejected', 'plan', 'poison', 'progress.', 'pull-lane', 'read-ahead', 'replays'],
      'skip-parks',
    ].map((name) => `unit/delivery/${name}`),
  },
  destinations: {
    files: [
      ...['config-texts', 'delivery-error', 'egress', 'error-faults', 'http-endpoint', 'http-recipes'],
      ...['http-records', 'http-parks-rejected', 'interim-responses', 'mysql-shapes', 'mysql-numbers'],
      ...['nats-subject', 'resolver', 'server-key'],
    ].map((name) => `unit/destinations/${name}`),
  },
}

export interface Job {
  /** The job's name for the runner: the file, or the folder, and the group if it runs in an environment of its own. */
  name: string
  /** Below dist-test/, with their extension. */
  files: readonly string[]
  env: Readonly<Record<string, string>>
  isOnNode24: boolean
}

/** Returns the jobs of the fast tier. */
export function fastJobs(all: readonly string[]): Job[] {
  const fast = all.filter((file) => homeOf(file) === null)
  const shared = Object.entries(together).map(([name, { files, alone = [] }]) => ({
    name: `${name} (together)`,
    files: fast.filter((file) => isBelow(file, files) && !isBelow(file, alone)),
    env: {},
    isOnNode24: false,
  }))
  const left = new Set(fast)
  for (const { files } of shared) for (const file of files) left.delete(file)
  const alone = [...left].sort((a, b) => Number(isBelow(b, slowest)) - Number(isBelow(a, slowest)))
  return [...shared.filter(({ files }) => files.length > 0), ...alone.map(jobOf)]
}

/** Whole daemons and browsers, for a minute each: they start first, so that none of them is the last that the others wait for. */
const slowest = ['browser/', 'crash/', 'world/', 'api/dashboard-']

/** Returns the jobs of the full tier, or of one of its groups. Throws on a group without a name in the table. */
export function fullJobs(all: readonly string[], only: string | null): Job[] {
  if (only !== null && groups[only] === undefined)
    throw new Error(`--only: there is no group ${only}; use one of ${Object.keys(groups).join(', ')}`)
  return jobsOfGroups(all, (file, name, { files, env }) => {
    // A group that is asked for by name is run completely.
    if (only !== null) return name === only && isBelow(file, files)
    return env === undefined ? homeOf(file) === name : isBelow(file, files)
  })
}

/** Returns the jobs of the full tier that each change has to pass. */
export function changeJobs(all: readonly string[]): Job[] {
  return jobsOfGroups(all, (file, name, { change = [] }) => homeOf(file) === name && isBelow(file, change))
}

/** Throws if a prefix of a group is that of no file. */
function jobsOfGroups(
  all: readonly string[],
  isChosen: (file: string, name: string, group: Group) => boolean,
): Job[] {
  return Object.entries(groups).flatMap(([name, group]) => {
    const { files, fast = [], change = [], env, node24 } = group
    const missing = [...files, ...fast, ...change].find(
      (prefix) => !all.some((file) => isBelow(file, [prefix])),
    )
    if (missing !== undefined)
      throw new Error(`test/tiers.ts: the group ${name} names ${missing}, which does not exist`)
    return all
      .filter((file) => isChosen(file, name, group))
      .map((file) => ({
        files: [file],
        name: env === undefined ? file : `${file} (${name})`,
        env: env ?? {},
        isOnNode24: node24 === true,
      }))
  })
}

export function jobOf(file: string): Job {
  return { name: file, files: [file], env: {}, isOnNode24: false }
}

/** Returns the group of the full tier that alone runs the file, or null if the fast tier does. */
function homeOf(file: string): string | null {
  for (const [name, { files, fast = [], env }] of Object.entries(groups))
    if (env === undefined && isBelow(file, files)) return isBelow(file, fast) ? null : name
  return null
}

function isBelow(file: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => file.startsWith(prefix))
}
