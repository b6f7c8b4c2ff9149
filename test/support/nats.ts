/**
 * Private nats-servers with JetStream for a test file: one, or a cluster of three; free ports of loopback, temporary
 * directories, all gone at the end.
 *
 * Every server stands behind a proxy too (`proxyUrl`), which can hold, cut and reset what passes. A client behind a proxy stays
 * there: servers advertise no addresses. With `proxyRoutes` the servers reach each other through proxies as well, and
 * `isolate` cuts one off from everybody.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { type ConnectionOptions, connect, type NatsConnection } from '@nats-io/transport-node'
import { freePort } from './free-port.ts'
import { programFile } from './programs.ts'
import { standStill } from './stand-still.ts'
import { startProxy, type TcpProxy } from './tcp-proxy.ts'
import { selfSignedCertificate } from './tls.ts'
import { until } from './until.ts'

export interface NatsOptions {
  /** Another version than the one that the machine has, or Debian. */
  program?: string
  replicas?: 1 | 3
  /** Bytes; without it the server's own, 1 MiB. */
  maxPayload?: number
  auth?: { user: string; password: string }
  /** Only TLS connections: with a certificate for 127.0.0.1 that `caFile` verifies. */
  tls?: boolean
  /** With `tls`: only clients that show a certificate, which is the servers' own (`keyFile`). */
  asksForCertificates?: boolean
  /** How the tests' own connections sign in, where it is neither of the above. */
  signIn?: Pick<ConnectionOptions, 'authenticator' | 'token' | 'user' | 'pass'>
  /** More lines of the servers' configuration. */
  more?: readonly string[]
  /** The servers of a cluster reach each other through proxies, so that `isolate` can cut one off. */
  proxyRoutes?: boolean
  /** `sync_interval: always`: from 2.10 on. */
  syncAlways?: boolean
}

export interface TestNatsServer {
  /** As in the leader's name of a stream. */
  name: string
  port: number
  /** Without user and password. */
  url: string
  /** The same server through `proxy`. */
  proxyUrl: string
  proxy: TcpProxy
  isRunning(): boolean
  /** kill -9; resolves when it is gone. Its data stay. */
  kill(): Promise<void>
  /** SIGSTOP and SIGCONT: connections stay open and nothing answers. */
  pause(): void
  resume(): void
  /** Kills it if it runs, then starts it on the same ports and data. Resolves when it takes connections. */
  restart(): Promise<void>
  /** Nothing passes between it and anybody else, clients at `proxyUrl` included, until `rejoin`. Needs `proxyRoutes`. */
  isolate(): void
  rejoin(): void
}

export interface TestNats {
  servers: TestNatsServer[]
  /** Every server, with user and password, separated by commas: what `buffer.nats` takes. */
  url: string
  /** The same through the proxies. */
  proxyUrl: string
  user: string | null
  password: string | null
  /** The certificate of the servers and its key, PEM; null without TLS. */
  caFile: string | null
  keyFile: string | null
  /** A connection of the test's own, to any server that runs. The caller closes it. */
  connect(): Promise<NatsConnection>
  /** The server that leads the stream now; null while nobody does. */
  leaderOf(stream: string): Promise<TestNatsServer | null>
  /** JetStream answers and every running server takes part. Rejects after `timeoutMs`, 120 s unless given. */
  ready(timeoutMs?: number): Promise<void>
  /** Ends the servers and removes their data. */
  stop(): Promise<void>
}

export async function startNats(options: NatsOptions = {}): Promise<TestNats> {
  const { replicas = 1, auth, tls = false } = options
  const program = options.program ?? programFile('nats-server')
  const directory = mkdtempSync(path.join(tmpdir(), 'pipectl-nats-'))
  const caFile = tls ? writeCertificate(directory) : null
  const ports = await distinctPorts(replicas * 2)
  const plans = Array.from({ length: replicas }, (_, index) => ({
    name: `n${index + 1}`,
    port: ports[index * 2]!,
    routePort: ports[index * 2 + 1]!,
  }))
  const routes = await openRoutes(plans, options)
  const servers = await Promise.all(plans.map((plan) => openServer(plan)))
  const killAll = () => {
    for (const { child } of servers) child()?.kill('SIGKILL')
  }
  process.once('exit', killAll)

  async function openServer(plan: ServerPlan) {
    const { name, port } = plan
    const file = path.join(directory, `${name}.conf`)
    const own = routes.filter(({ from }) => from === name)
    writeFileSync(file, configuration(plan, own, directory, options), { mode: 0o600 })
    let child: ChildProcess | undefined
    const proxy = await startProxy({ host: '127.0.0.1', port })
    const around = [proxy, ...routes.flatMap((route) => (touches(route, name) ? (route.proxy ?? []) : []))]
    const isRunning = () => child !== undefined && child.exitCode === null && child.signalCode === null
    const kill = async () => {
      if (child === undefined || !isRunning()) return
      const ended = new Promise((resolve) => child?.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    }
    const setModes = (kind: 'hold' | 'pass') => {
      if (replicas === 3 && options.proxyRoutes !== true) throw new Error('isolate needs proxyRoutes')
      for (const one of around) one.setMode({ kind })
    }
    const server: TestNatsServer = {
      name,
      port,
      url: `nats://127.0.0.1:${port}`,
      proxyUrl: `nats://127.0.0.1:${proxy.port}`,
      proxy,
      isRunning,
      kill,
      pause: () => {
        if (isRunning()) standStill(child!.pid!)
      },
      resume: () => child?.kill('SIGCONT'),
      async restart() {
        await kill()
        for (let attempt = 1; ; attempt += 1) {
          child = spawn(program, ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] })
          try {
            await taking(child)
            return
          } catch (error) {
            // Another process may have been given the port for a connection of its own: that ends.
            if (attempt === 20 || !/address already in use/.test(String(error))) throw error
            await setTimeout(250)
          }
        }
      },
      isolate: () => setModes('hold'),
      rejoin: () => setModes('pass'),
    }
    return { server, child: () => child }
  }

  async function connectAny(): Promise<NatsConnection> {
    return await connect({
      servers: servers.flatMap(({ server }) => (server.isRunning() ? [server.url] : [])),
      ...(auth === undefined ? {} : { user: auth.user, pass: auth.password }),
      ...(caFile === null ? {} : { tls: { caFile, certFile: caFile, keyFile: keyFileOf(caFile) } }),
      ...options.signIn,
      timeout: 5_000,
      reconnect: false,
    })
  }
  async function ready(timeoutMs = 120_000): Promise<void> {
    const keepsStreams = async () => {
      const connection = await connectAny()
      try {
        const manager = await jetstreamManager(connection, { timeout: 5_000 })
        const name = 'ready'
        await manager.streams.add({ name, subjects: [name], num_replicas: replicas })
        await manager.streams.delete(name)
        return true
      } finally {
        await connection.close()
      }
    }
    await until('JetStream answers and keeps streams', keepsStreams, { timeoutMs })
  }
  /**
   * In about 1 of 10 first starts of 2.10.27 a leader is elected before all three have met, and places no stream with three replicas
   * ("no suitable peers") until they are started again.
   */
  async function formCluster(): Promise<void> {
    await Promise.all(list.map((server) => server.restart()))
    for (let attempt = 1; replicas === 3 && attempt <= 5; attempt += 1) {
      try {
        await ready(15_000)
        return
      } catch {
        for (const server of list) await server.restart()
      }
    }
    await ready()
  }
  const withLogin = (url: string) =>
    auth === undefined
      ? url
      : url.replace('//', `//${encodeURIComponent(auth.user)}:${encodeURIComponent(auth.password)}@`)
  const list = servers.map(({ server }) => server)
  async function stop(): Promise<void> {
    await Promise.all(list.map((server) => server.kill()))
    await Promise.all(list.map((server) => server.proxy.stop()))
    await Promise.all(routes.map(({ proxy }) => proxy?.stop()))
    process.off('exit', killAll)
    rmSync(directory, { recursive: true, force: true })
  }
  try {
    await formCluster()
  } catch (error) {
    await stop()
    throw error
  }
  return {
    servers: list,
    url: list.map(({ url }) => withLogin(url)).join(','),
    proxyUrl: list.map(({ proxyUrl }) => withLogin(proxyUrl)).join(','),
    user: auth?.user ?? null,
    password: auth?.password ?? null,
    caFile,
    keyFile: caFile === null ? null : keyFileOf(caFile),
    connect: connectAny,
    async leaderOf(stream) {
      const connection = await connectAny()
      try {
        const manager = await jetstreamManager(connection, { timeout: 2_000 })
        const { cluster } = await manager.streams.info(stream)
        const leader = replicas === 1 ? 'n1' : cluster?.leader
        return list.find(({ name }) => name === leader) ?? null
      } catch {
        return null
      } finally {
        await connection.close()
      }
    },
    ready,
    stop,
  }
}

interface ServerPlan {
  name: string
  port: number
  routePort: number
}

/** How one server of a cluster reaches another. */
interface Route {
  from: string
  to: string
  port: number
  proxy?: TcpProxy
}

async function openRoutes(plans: ServerPlan[], { proxyRoutes = false }: NatsOptions): Promise<Route[]> {
  const pairs = plans.flatMap((from) => plans.filter((to) => to !== from).map((to) => ({ from, to })))
  return await Promise.all(
    pairs.map(async ({ from, to }) => {
      const names = { from: from.name, to: to.name }
      if (!proxyRoutes) return { ...names, port: to.routePort }
      const proxy = await startProxy({ host: '127.0.0.1', port: to.routePort })
      return { ...names, port: proxy.port, proxy }
    }),
  )
}

function touches({ from, to }: Route, name: string): boolean {
  return from === name || to === name
}

function configuration(plan: ServerPlan, routes: Route[], directory: string, options: NatsOptions): string {
  const { maxPayload, auth, tls = false, asksForCertificates = false, more = [] } = options
  const text = JSON.stringify
  const lines = [
    `server_name: ${plan.name}`,
    `listen: "127.0.0.1:${plan.port}"`,
    // A test's stream may reserve more than the disk of its machine has.
    `jetstream { store_dir: ${text(path.join(directory, plan.name))}, max_file_store: 1TB, max_memory_store: 64MB${options.syncAlways === true ? ', sync_interval: always' : ''} }`,
  ]
  if (maxPayload !== undefined)
    lines.push(`max_payload: ${maxPayload}`, `max_pending: ${Math.max(maxPayload, 64 << 20)}`)
  if (auth !== undefined)
    lines.push(`authorization { user: ${text(auth.user)}, password: ${text(auth.password)} }`)
  if (tls)
    lines.push(
      `tls { cert_file: ${text(path.join(directory, 'cert.pem'))}, key_file: ${text(path.join(directory, 'key.pem'))}${asksForCertificates ? `, ca_file: ${text(path.join(directory, 'cert.pem'))}, verify: true` : ''} }`,
    )
  lines.push(...more)
  if (routes.length > 0) {
    const urls = routes.map(({ port }) => text(`nats-route://127.0.0.1:${port}`)).join(', ')
    // Nobody listens where it is advertised: servers keep to the routes that are written here, which may be proxies.
    lines.push(
      `cluster { name: test, listen: "127.0.0.1:${plan.routePort}", no_advertise: true, advertise: "127.0.0.1:1", routes: [${urls}] }`,
    )
  }
  return `${lines.join('\n')}\n`
}

function keyFileOf(caFile: string): string {
  return path.join(path.dirname(caFile), 'key.pem')
}

function writeCertificate(directory: string): string {
  const { key, certificate } = selfSignedCertificate()
  writeFileSync(path.join(directory, 'key.pem'), key, { mode: 0o600 })
  const file = path.join(directory, 'cert.pem')
  writeFileSync(file, certificate)
  return file
}

/** As many as wanted, none twice: the system may give a port again that nobody has begun to listen on. */
async function distinctPorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await freePort())
  return [...ports]
}

function taking(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let log = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4000)
      if (log.includes('Server is ready')) resolve()
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`nats-server ended with ${code}: ${log}`)))
  })
}
