/** Each claim of monitoring/ about the daemon is true: every metric, every rule, every panel. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Command } from 'commander'
import { Registry } from 'prom-client'
import t from 'tap'
import { parse } from 'yaml'
import { buildProgram } from '../../src/apps/cli/program.ts'
import { registerReplica } from '../../src/observe/metrics/replica-metrics.ts'
import { registerCertificates, registerCluster } from '../../src/observe/metrics/service-metrics.ts'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { programFile } from '../support/programs.ts'
import { until } from '../support/until.ts'

const folder = new URL('../../monitoring/', import.meta.url).pathname
const read = (name: string) => readFileSync(path.join(folder, name), 'utf8')

interface Metric {
  type: string
  labels: string[]
}

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string; description: string }
}

interface Panel {
  title: string
  targets?: { expr: string }[]
}

/** The rows of the tables: name, type and labels. */
function documented(): Map<string, Metric> {
  const rows = read('metrics.md').matchAll(/^\| `(\w+)` \| (\w+) \| (.*?) \| \S+ \| \S.* \|$/gm)
  return new Map(
    [...rows].map(([, name, type, labels]) => [
      name!,
      { type: type!, labels: [...labels!.matchAll(/`(\w+)`/g)].map(([, label]) => label!) },
    ]),
  )
}

function exposed(text: string): Map<string, Metric> {
  const metrics = new Map<string, Metric>()
  for (const line of text.split('\n')) {
    const [, name, type] = /^# TYPE (\w+) (\w+)$/.exec(line) ?? []
    if (name !== undefined) metrics.set(name, { type: type!, labels: [] })
    const [, series, labels] = /^(\w+)\{(.*)\} /.exec(line) ?? []
    if (series === undefined) continue
    const metric = metrics.get(series) ?? metrics.get(baseName(series))!
    for (const [, label] of labels!.matchAll(/(?:^|,)(\w+)="/g))
      if (label !== 'le' && !metric.labels.includes(label!)) metric.labels.push(label!)
  }
  return metrics
}

const baseName = (series: string) => series.replace(/_(bucket|sum|count)$/, '')

function promtool(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(programFile('promtool'), args, {
    encoding: 'utf8',
    cwd: folder,
  })
  return { status, output: stdout + stderr }
}

const { groups } = parse(read('alerts.yml')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const panels = (JSON.parse(read('grafana.json')) as { panels: Panel[] }).panels
const queries = panels.flatMap(({ targets }) => (targets ?? []).map(({ expr }) => withoutVariables(expr)))

/** As Grafana would send it. */
function withoutVariables(expr: string): string {
  return expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$(job|instance)/g, '.+')
}

/** Metrics that an expression reads. Those of Prometheus itself are not ours to list. */
function metricsIn(expr: string): string[] {
  const names = expr.match(/\b(pipectl|process|nodejs)_\w+/g) ?? []
  return names.map((name) => (documented().has(name) ? name : baseName(name)))
}

t.test('metrics.md lists what a daemon with lanes of all kinds exposes, and nothing else', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const pipe_source = { type: 'github', secrets: ['its secret'] }
  const pipeId = await daemon.createPipe({ pipe_name: 'measured', pipe_source })
  const database = { host: '127.0.0.1', port: 9, database: 'x', username: 'x', password: 'x', table: 'x' }
  const kinds: [string, Record<string, unknown>][] = [
    ['destination_http_endpoint', { url: sink.url }],
    ['destination_pull', {}],
    ['destination_database', { dialect: 'postgresql', ...database }],
    ['destination_database', { dialect: 'mysql', ...database }],
    ['destination_object_store', { bucket: 'bucket', endpoint: 'http://127.0.0.1:9' }],
    ['destination_nats', { url: 'nats://127.0.0.1:9', subject: 'events' }],
  ]
  for (const [destination_type, destination_config] of kinds)
    await daemon.createDestination(pipeId, { destination_type, destination_config })
  await daemon.ingest(pipeId, { a: 1 })
  await daemon.api('POST', `/v1/ingest/${pipeId}`, 'not JSON')
  await daemon.api('POST', `/v1/hooks/${pipeId}`, { unsigned: 1 })
  const strictId = await daemon.createPipe({ pipe_name: 'strict', pipe_schema: { required: ['id'] } })
  await daemon.api('POST', `/v1/ingest/${strictId}`, { a: 1 })
  await daemon.api('PATCH', `/v1/pipes/${strictId}`, { pipe_schema_on_mismatch: 'park' })
  await daemon.api('POST', `/v1/ingest/${strictId}`, { a: 1 })
  const look = async () => (await fetch(daemon.metricsUrl)).text()
  await until('attempts were made', async () => /attempt_seconds_count\{.*database/.test(await look()))
  const text = await look()
  const found = exposed(`${text}${await clusterText()}${await tlsText()}${await replicaText()}`)
  const listed = documented()
  t.ok(listed.size > 60)
  // Some appear only now and then: no resource of a kind, no collection of garbage yet.
  const passing = /^nodejs_(active|gc)_/
  const shown = (metrics: Map<string, Metric>) =>
    [...metrics]
      .filter(([name]) => !passing.test(name))
      .map(([name, { type, labels }]) => `${name} ${type} ${labels.join(' ')}`)
      .sort()
  t.strictSame(shown(listed), shown(found))
  t.strictSame([...listed.keys()].sort(), [...found.keys()].sort())

  t.test('negative control: one that is not listed, or has another label, is seen', async (t) => {
    const other = exposed(`${text.replaceAll('outcome="', 'result="')}\n# TYPE pipectl_new gauge\n`)
    const differences = shown(other).filter((line) => !shown(listed).includes(line))
    t.match(differences, [/attempt_seconds .* result/, /attempts_total .* result/, /^pipectl_new gauge/])
  })
})

/** The additional metrics of a cluster node. */
async function clusterText(): Promise<string> {
  const registry = new Registry()
  const measured = {
    nodes: { live: 2, draining: 0, expired: 1 },
    ...{ ownedPipes: 3, unownedPipes: 0, gainedPipes: 4, heartbeatAgeSeconds: 1 },
    ...{ changesBehind: 0, clockOffsetSeconds: -0.5 },
  }
  await registerCluster(registry, async () => measured)()
  return await registry.metrics()
}

/** And a daemon with a replica. */
async function replicaText(): Promise<string> {
  const registry = new Registry()
  const requests = { put: 1, get: 0, list: 0, remove: 0 }
  const measured = {
    storedThroughMs: Date.now(),
    snapshotMs: null,
    isFailing: false,
    requests,
    sentBytes: 1,
    stored: null,
    verifiedMs: null,
  }
  await registerReplica(registry, async () => measured)()
  return await registry.metrics()
}

/** And a listener with a certificate. */
async function tlsText(): Promise<string> {
  const registry = new Registry()
  registerCertificates(registry, [{ listener: 'listen', current: { expiresMs: 1 }, rejection: null }])
  return await registry.metrics()
}

t.test('the rules are valid, and each fires and is silent where its tests say so', async (t) => {
  const checked = promtool('check', 'rules', 'alerts.yml')
  t.equal(checked.status, 0, checked.output)
  const tested = promtool('test', 'rules', 'alerts.test.yml')
  t.equal(tested.status, 0, tested.output)
  const tests = read('alerts.test.yml')
  for (const { alert } of rules) {
    t.ok(tests.includes(`name: '${alert}: fires'`), `${alert} has a test that it fires`)
    t.ok(tests.includes(`name: '${alert}: is silent'`), `${alert} has a test that it is silent`)
  }
})

t.test('negative control: rules that never fire, or always, fail the tests of each', async (t) => {
  const tested = (change: (expr: string) => string) => {
    const dir = t.testdir({ 'alerts.test.yml': read('alerts.test.yml') })
    const changed = rules.map((rule) => ({ ...rule, expr: change(rule.expr) }))
    writeFileSync(path.join(dir, 'alerts.yml'), JSON.stringify({ groups: [{ name: 'g', rules: changed }] }))
    const { status, output } = promtool('test', 'rules', path.join(dir, 'alerts.test.yml'))
    t.not(status, 0)
    return output
  }
  const never = tested((expr) => `(${expr}) and vector(1) == 0`)
  const always = tested(() => 'vector(1)')
  for (const { alert } of rules) {
    t.match(never, `alertname="${alert}"`, `${alert} that never fires`)
    t.match(always, `alertname="${alert}"`, `${alert} that always fires`)
  }
})

t.test('each rule says what happened and what to do, with commands that exist', async (t) => {
  const program = await buildProgram()
  for (const { alert, labels, annotations } of rules) {
    t.match(labels.severity, /^(critical|warning)$/, alert)
    t.ok(annotations.summary.length > 20, alert)
    t.match(annotations.description, /`[^`]+`/, `${alert} says what to look at`)
    const text = annotations.summary + annotations.description
    for (const [, words] of text.matchAll(/`pipectl ([^`]+)`/g))
      t.ok(isCommand(program, words!.split(' ')), `${alert}: pipectl ${words}`)
  }
  t.notOk(isCommand(program, ['lanes', 'mend']), 'negative control')
  t.notOk(isCommand(program, ['serve', '--unsafe']), 'negative control: an option')
})

function isCommand(command: Command, [word, ...rest]: string[]): boolean {
  // `pipectl nodes` does something and has commands too.
  if (word === undefined) return command.commands.length === 0 || command.name() === 'nodes'
  if (word.startsWith('--'))
    return command.options.some((one) => one.long === word) && isCommand(command, rest)
  const next = command.commands.find((one) => one.name() === word)
  return next !== undefined && isCommand(next, rest)
}

t.test('rules and dashboard read only metrics that there are', async (t) => {
  const listed = documented()
  const all = [...rules.map(({ expr }) => expr), ...queries]
  const used = new Set(all.flatMap(metricsIn))
  t.strictSame(
    [...used].filter((name) => !listed.has(name)),
    [],
  )
  t.ok(used.size > 25)
  t.strictSame(metricsIn('rate(pipectl_ingest_latency_seconds_bucket[5m])'), [
    'pipectl_ingest_latency_seconds',
  ])
  t.strictSame(metricsIn('pipectl_no_such'), ['pipectl_no_such'], 'negative control')
})

t.test('Prometheus understands every query of the dashboard', async (t) => {
  const check = (all: readonly string[]) => {
    const wrapped = all.map((expr, index) => ({ record: `query:${index}`, expr }))
    const file = path.join(t.testdir(), 'queries.yml')
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'queries', rules: wrapped }] }))
    return promtool('check', 'rules', file)
  }
  t.ok(queries.length > 30)
  const checked = check(queries)
  t.equal(checked.status, 0, checked.output)
  t.not(check([...queries, 'sum by (']).status, 0, 'negative control')
  for (const { title, targets } of panels) t.ok(title !== '' && (targets === undefined || targets.length > 0))
})
