/** Metadata of a cluster for a test: a real PostgreSQL, a database for each test, a way to it that can be cut for each node. */
import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import type { Test } from 'tap'
import { mintApiKey } from '../../src/metadata/key-tokens.ts'
import type { Metadata } from '../../src/metadata/store.ts'
import type { Logger } from '../../src/platform/log.ts'
import { openMetadata } from '../../src/stores/open-metadata.ts'
import { newPipe } from '../unit/metadata/fixture.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'
import { startProxy, type TcpProxy } from './tcp-proxy.ts'

export interface ClusterServer {
  postgres: TestPostgres
  /** An empty database with a workspace, and how to open it. */
  create(t: Scope): Promise<ClusterDatabase>
}

type Scope = Pick<Test, 'teardown'>

export interface ClusterDatabase {
  url: string
  sealingKey: Buffer
  workspaceId: string
  metadata: Metadata
  /** One more handle, as another node has it. */
  open(): Promise<Metadata>
  /** The same over a proxy of its own. */
  openCuttable(): Promise<{ metadata: Metadata; proxy: TcpProxy }>
  /** Pipes, by id. */
  pipes(count: number): Promise<string[]>
}

export async function startClusterServer(t: Scope): Promise<ClusterServer> {
  const postgres = await startPostgres({ ssl: false })
  t.teardown(() => postgres.stop())
  let databases = 0
  return {
    postgres,
    async create(scope) {
      const name = `cluster_${++databases}`
      await postgres.query(`CREATE DATABASE ${name}`)
      const sealingKey = randomBytes(32)
      const urlOf = (port: number) =>
        `postgres://postgres:${postgres.password}@127.0.0.1:${port}/${name}?sslmode=disable`
      const url = urlOf(postgres.port)
      const openAt = async (port: number) => {
        const opened = await openMetadata({ kind: 'postgresql', url: urlOf(port) }, sealingKey)
        scope.teardown(() => opened.close())
        return opened
      }
      const metadata = await openAt(postgres.port)
      const { workspaceId } = await metadata.workspaces.create('default', mintApiKey('first').key)
      return {
        ...{ url, sealingKey, workspaceId, metadata },
        open: () => openAt(postgres.port),
        async openCuttable() {
          const proxy = await startProxy({ host: '127.0.0.1', port: postgres.port })
          scope.teardown(() => proxy.stop())
          return { metadata: await openAt(proxy.port), proxy }
        },
        async pipes(count) {
          const made: string[] = []
          for (let n = 0; n < count; n += 1)
            made.push((await newPipe(metadata, workspaceId, `pipe_${made.length}_${n}`)).pipe_id)
          return made
        },
      }
    },
  }
}

export interface LogLine {
  msg: string
  [field: string]: unknown
}

/** A log that the test reads. */
export function readableLog(): { log: Logger; lines: LogLine[] } {
  const lines: LogLine[] = []
  const log = pino(
    { base: {}, formatters: { level: (level) => ({ level }) } },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  )
  return { log, lines }
}
