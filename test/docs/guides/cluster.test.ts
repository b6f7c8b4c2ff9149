/** docs/cluster.md, walked with the files of examples/cluster: only addresses, ports and places are this machine's. */
import { type ChildProcess, spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import t from 'tap'
import { runCli } from '../../support/cli.ts'
import { cleanEnv, initDataDir, TestDaemon } from '../../support/daemon.ts'
import { freePort } from '../../support/free-port.ts'
import { walk } from '../../support/guide-walker.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { startPostgres } from '../../support/postgres.ts'
import { programFile } from '../../support/programs.ts'
import { selfSignedCertificate } from '../../support/tls.ts'
import { until } from '../../support/until.ts'

const examples = new URL('../../../examples/cluster/', import.meta.url).pathname
const read = (name: string) => readFileSync(path.join(examples, name), 'utf8')
const dir = t.testdir()
const names = ['nats-1', 'nats-2', 'nats-3']
const { key, certificate } = selfSignedCertificate()
writeFileSync(path.join(dir, 'server-key.pem'), key, { mode: 0o600 })
for (const name of ['server-cert.pem', 'ca.pem', 'nats-ca.pem'])
  writeFileSync(path.join(dir, name), certificate)

const ports = await Promise.all(
  names.map(async () => ({ client: await freePort(), route: await freePort() })),
)
const servers: ChildProcess[] = []
t.teardown(() => {
  for (const server of servers) server.kill('SIGKILL')
})

/**
 * The configuration of one server, with the differences that the comments of the file name, and those that a test
 * must not share with others.
 */
function configuration(at: number): string {
  let text = read('nats-server.conf')
    .replace('server_name: nats-1', `server_name: ${names[at]}`)
    .replace('"0.0.0.0:4222"', `"127.0.0.1:${ports[at]!.client}"`)
    .replace('"0.0.0.0:6222"', `"127.0.0.1:${ports[at]!.route}"`)
    .replace('/var/lib/nats', path.join(dir, names[at]!))
    .replaceAll('/etc/nats/', `${dir}/`)
    // The disk of a test's machine may be smaller.
    .replace('max_file_store: 24GB', 'max_file_store: 1TB')
  for (const [index, name] of names.entries())
    text = text.replace(`${name}.internal:6222`, `127.0.0.1:${ports[index]!.route}`)
  return text
}

async function startServers(): Promise<void> {
  for (const [at, name] of names.entries()) {
    const file = path.join(dir, `${name}.conf`)
    writeFileSync(file, configuration(at), { mode: 0o600 })
    const server = spawn(programFile('nats-server'), ['-c', file], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    servers[at] = server
    let log = ''
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
    await until(`${name} takes connections`, () => {
      if (server.exitCode !== null) throw new Error(log)
      return log.includes('Server is ready')
    })
  }
}

async function stopServers(): Promise<void> {
  for (const server of servers) {
    // One that has ended by itself says so no second time.
    if (server.exitCode !== null || server.signalCode !== null) continue
    const gone = new Promise((resolve) => server.once('exit', resolve))
    server.kill('SIGKILL')
    await gone
  }
}

/** With three replicas. */
async function makesStreams(): Promise<boolean> {
  const connection = await connect({
    ...{ servers: ports.map(({ client }) => `tls://127.0.0.1:${client}`), reconnect: false },
    ...{ user: 'pipectl', pass: 'change-me-nats', tls: { caFile: path.join(dir, 'nats-ca.pem') } },
  })
  try {
    const manager = await jetstreamManager(connection, { timeout: 5_000 })
    await manager.streams.add({ name: 'probe', subjects: ['pipectl.pipectl.probe'], num_replicas: 3 })
    return await manager.streams.delete('probe')
  } finally {
    await connection.close()
  }
}

// About one first start in ten needs another, as the page says.
for (let tries = 5; ; tries -= 1) {
  await startServers()
  const works = await until('they make streams', makesStreams, { timeoutMs: 15_000 }).catch((error) => {
    if (tries === 1) throw error
    return false
  })
  if (works) break
  await stopServers()
}

const postgres = await startPostgres({ ssl: false })
t.teardown(() => postgres.stop())
for (const statement of read('postgresql.sql').split(';').slice(0, -1)) await postgres.query(statement)

/** The file `environment`, as the unit reads it. */
function environment(): Record<string, string> {
  const pairs = read('environment').matchAll(/^([A-Z_]+)=(.*)$/gm)
  const env = Object.fromEntries([...pairs].map(([, name, value]) => [name!, value!]))
  const config = path.join(dir, 'pipectl.toml')
  writeFileSync(config, read('pipectl.toml').replaceAll('/etc/pipectl/', `${dir}/`))
  let nats = env.PIPECTL_BUFFER_NATS!
  for (const [index, name] of names.entries())
    nats = nats.replace(`${name}.internal:4222`, `127.0.0.1:${ports[index]!.client}`)
  return {
    PIPECTL_CONFIG: config,
    PIPECTL_METADATA_URL: env.PIPECTL_METADATA_URL!.replace(
      'postgres.internal:5432',
      `127.0.0.1:${postgres.port}`,
    ),
    PIPECTL_BUFFER_NATS: nats,
  }
}

const env = environment()
const places = ['node-1', 'node-2'].map((name) => path.join(dir, name))
const workspace = await initDataDir(places[0]!, env)
mkdirSync(places[1]!, { mode: 0o700 })
copyFileSync(path.join(places[0]!, 'sealing.key'), path.join(places[1]!, 'sealing.key'))
const nodes: TestDaemon[] = []
for (const [at, dataDir] of places.entries()) {
  const node = new TestDaemon({ dataDir, env: { ...env, PIPECTL_NODE_NAME: `node-${at + 1}` } })
  t.teardown(() => node.close())
  node.apiKey = workspace.api_key
  nodes.push(await node.start())
}

t.test('three nats-servers, PostgreSQL and two nodes work as the files say', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const pipeId = await nodes[0]!.createPipe({ pipe_name: 'orders' })
  await nodes[1]!.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url },
  })
  for (const node of nodes) await node.ingest(pipeId, { from: node.dataDir })
  await until('both records have arrived', () =>
    nodes.every((node) => sink.records().some((one) => one.from === node.dataDir)),
  )
  const listed = await runCli(['nodes', '--data-dir', places[0]!, '-o', 'json'], { env: cleanEnv(env) })
  t.equal(listed.code, 0, listed.stderr)
  t.match(JSON.parse(listed.stdout).nodes, [{ node_name: 'node-1' }, { node_name: 'node-2' }])

  const checked = await runCli(['doctor', '--data-dir', places[0]!, '-o', 'json'], { env: cleanEnv(env) })
  const failed = JSON.parse(checked.stdout).checks.filter((one: { result: string }) => one.result === 'fail')
  // Its own ports are in use: the daemon of this directory runs.
  t.same(
    failed.map((one: { name: string; detail: string }) => `${one.name}: ${one.detail}`),
    [],
  )
})

t.test('passwords stand in no file but the one for them', async (t) => {
  t.notMatch(read('pipectl.toml'), /change-me|:\/\//)
  t.match(read('environment'), /change-me-postgres.*\n.*change-me-nats/)
})

const keyFile = path.join(places[0]!, 'sealing.key')
await walk('cluster', {
  cluster: async () => ({ env: { ...env, PIPECTL_SECRETS_KEY_FILE: keyFile }, stop: async () => {} }),
})
