/**
 * A whole cluster for tests: PostgreSQL, nats-servers with JetStream, and nodes (the built program, each with a data directory of
 * its own and the sealing key of the first). With `proxies` each node reaches its servers through proxies of its own, so that
 * `cut` takes it off the network and leaves it running.
 */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type CreatedWorkspace, initDataDir, TestDaemon } from './daemon.ts'
import { startNats, type TestNats } from './nats.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'
import { standStill } from './stand-still.ts'
import { type ProxyMode, startProxy, type TcpProxy } from './tcp-proxy.ts'

export interface ClusterOptions {
  /** How many; they are started in order. Default 1. */
  nodes?: number
  /** nats-servers, and copies of each message. Default 1. */
  replicas?: 1 | 3
  /** The limit of every nats-server in bytes. Default 16 MiB, so that the largest body fits. */
  maxPayload?: number
  /** Between each node and its servers. */
  proxies?: boolean
  /** Between the nats-servers, for `nats.servers[n].isolate()`. */
  proxyRoutes?: boolean
  /** The nats-servers sync every write: `sync_interval: always`. */
  syncAlways?: boolean
  /** Settings of every node, as variables. */
  env?: Record<string, string>
}

export interface TestNode extends TestDaemon {
  readonly name: string
  /** SIGSTOP and SIGCONT: nothing of it runs, and its connections stay open. */
  pause(): void
  resume(): void
  /** Nothing passes between it and PostgreSQL or NATS until `mend`. Needs `proxies`. */
  cut(mode?: ProxyMode): void
  /** The same between it and NATS alone. */
  cutNats(mode?: ProxyMode): void
  mend(): void
}

export interface TestCluster {
  postgres: TestPostgres
  nats: TestNats
  nodes: TestNode[]
  /** The metadata database as the tests reach it. */
  metadataUrl: string
  workspace: CreatedWorkspace
  /** Adds one more node, without starting it. `databaseUser`: its user in PostgreSQL, with the same password. */
  addNode(env?: Record<string, string>, databaseUser?: string): Promise<TestNode>
  /** Stops the nodes, then the servers; removes everything. */
  close(): Promise<void>
}

const names = ['a', 'b', 'c', 'd', 'e', 'f']
const mib = 1024 * 1024

export async function startCluster(options: ClusterOptions = {}): Promise<TestCluster> {
  const {
    nodes: count = 1,
    replicas = 1,
    maxPayload = 16 * mib,
    proxyRoutes = false,
    syncAlways = false,
    env = {},
  } = options
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-cluster-'))
  const [postgres, nats] = await Promise.all([
    startPostgres({ ssl: false }),
    startNats({ replicas, maxPayload, proxyRoutes, syncAlways }),
  ])
  await nats.ready()
  const nodes: TestNode[] = []
  const proxies: TcpProxy[] = []
  const metadataUrl = urlOf(postgres, postgres)
  const close = async () => {
    await Promise.all(nodes.map((node) => node.close()))
    await Promise.all(proxies.map((proxy) => proxy.stop()))
    await Promise.all([postgres.stop(), nats.stop()])
    rmSync(root, { recursive: true, force: true })
  }
  const shared = {
    PIPECTL_METADATA_URL: metadataUrl,
    PIPECTL_BUFFER_NATS: nats.url,
    PIPECTL_CLUSTER_REPLICAS: String(replicas),
    ...env,
  }
  const keyFile = path.join(root, names[0]!, 'sealing.key')
  try {
    const workspace = await initDataDir(path.dirname(keyFile), shared)
    const addNode = async (own: Record<string, string> = {}, databaseUser = postgres.user) => {
      const name = names[nodes.length] ?? `node-${nodes.length}`
      const dataDir = path.join(root, name)
      mkdirSync(dataDir, { recursive: true, mode: 0o700 })
      const key = path.join(dataDir, 'sealing.key')
      if (key !== keyFile) copyFileSync(keyFile, key)
      const between = options.proxies === true ? await proxiesTo(postgres, nats, databaseUser) : null
      proxies.push(...(between?.all ?? []))
      const node = new ClusterNode(name, between?.all ?? null, {
        dataDir,
        env: { ...shared, ...between?.env, PIPECTL_NODE_NAME: name, ...own },
      })
      node.apiKey = workspace.api_key
      node.workspaceId = workspace.workspace_id
      nodes.push(node)
      return node
    }
    for (let index = 0; index < count; index += 1) await (await addNode()).start()
    return { postgres, nats, nodes, metadataUrl, workspace, addNode, close }
  } catch (error) {
    await close()
    throw error
  }
}

class ClusterNode extends TestDaemon implements TestNode {
  readonly name: string
  readonly #proxies: readonly TcpProxy[] | null

  constructor(
    name: string,
    proxies: readonly TcpProxy[] | null,
    options: ConstructorParameters<typeof TestDaemon>[0],
  ) {
    super(options)
    this.name = name
    this.#proxies = proxies
  }

  /** Whatever was done to it. */
  override async close(): Promise<void> {
    this.resume()
    if (this.#proxies !== null) this.mend()
    await super.close()
  }

  pause(): void {
    standStill(this.pid)
  }

  resume(): void {
    this.signal('SIGCONT')
  }

  cut(mode: ProxyMode = { kind: 'hold' }): void {
    this.#setMode(mode)
  }

  cutNats(mode: ProxyMode = { kind: 'hold' }): void {
    // The first one is the database's.
    this.#setMode(mode, 1)
  }

  mend(): void {
    this.#setMode({ kind: 'pass' })
  }

  #setMode(mode: ProxyMode, from = 0): void {
    if (this.#proxies === null) throw new Error('cut needs the option `proxies`')
    for (const proxy of this.#proxies.slice(from)) {
      proxy.setMode(mode)
      // The mode itself is about new connections.
      if (mode.kind === 'reset') proxy.cut()
    }
  }
}

async function proxiesTo(postgres: TestPostgres, nats: TestNats, user: string) {
  const database = await startProxy(postgres)
  const servers = await Promise.all(
    nats.servers.map((server) => startProxy({ host: '127.0.0.1', port: server.port })),
  )
  const env = {
    PIPECTL_METADATA_URL: urlOf({ ...postgres, user }, database),
    PIPECTL_BUFFER_NATS: servers.map(({ host, port }) => `nats://${host}:${port}`).join(','),
  }
  return { all: [database, ...servers], env }
}

function urlOf({ user, password, database }: TestPostgres, at: { host: string; port: number }): string {
  return `postgres://${user}:${password}@${at.host}:${at.port}/${database}`
}
