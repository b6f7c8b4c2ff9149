/** Reads the content of a metadata database without changing it: before it is opened, and for `pipectl doctor`. */
import { oldestFormat } from '../../metadata/migrations.ts'
import { createSealer, UnsealError } from '../../metadata/secrets.ts'
import { openingError, storageError } from './errors.ts'
import { Session } from './session.ts'
import { parsePostgresUrl } from './url.ts'

export interface InspectedDatabase {
  /** Identifies the database, without user and password. */
  label: string
  /** The server's version. */
  version: string
  /** The setting for transactions of this user. */
  synchronousCommit: string
  /** The server's clock minus this machine's clock, in ms. The error is at most the response time. */
  clockOffsetMs: number
  /** The facts that `init` stored; null when pipectl was not set up in it. */
  metadata: {
    /** The newest migration. */
    format: number
    /** The version that opened it last; null when it is not known. */
    lastOpenedBy: string | null
    /** True when its secrets were sealed with this key. */
    isSealedWith(key: Uint8Array): boolean
    workspaces: number
    workspacesWithAlerts: number
    /** Nodes with a valid lease, with their addresses for people. */
    nodes: { name: string; version: string; address: string | null }[]
  } | null
}

/**
 * Throws ConfigError for problems that the operator must fix, and StorageUnavailableError when the server does not
 * respond.
 */
export async function inspectPostgres(url: string): Promise<InspectedDatabase> {
  const target = parsePostgresUrl(url)
  let session: Session | null = null
  try {
    session = await Session.open(target, { statementMs: 10_000, lockMs: 5_000 })
    return await inspect(session, target.label)
  } catch (error) {
    throw openingError(storageError(error, target.label), target.label)
  } finally {
    await session?.close()
  }
}

async function inspect(session: Session, label: string): Promise<InspectedDatabase> {
  const askedAt = Date.now()
  const [server] = await rows(
    session,
    `SELECT current_setting('server_version') AS version, current_setting('synchronous_commit') AS synchronous_commit,
      extract(epoch FROM clock_timestamp()) * 1000 AS now_ms,
      to_regclass('metadata_settings') IS NOT NULL AND to_regclass('workspaces') IS NOT NULL AS has_tables`,
  )
  const clockOffsetMs = Math.round(Number(server?.now_ms) - (askedAt + Date.now()) / 2)
  return {
    label,
    version: String(server?.version),
    synchronousCommit: String(server?.synchronous_commit),
    clockOffsetMs,
    metadata: server?.has_tables === true ? await inspectTables(session) : null,
  }
}

async function inspectTables(session: Session): Promise<InspectedDatabase['metadata']> {
  const [found] = await rows(
    session,
    `SELECT (SELECT max(number) FROM metadata_migrations) AS format,
      (SELECT value FROM metadata_settings WHERE name = 'sealing_check') AS sealed,
      (SELECT value FROM metadata_settings WHERE name = 'last_opened_by') AS last_opened_by,
      (SELECT count(*) FROM workspaces) AS workspaces`,
  )
  if (found === undefined || typeof found.sealed !== 'string') return null
  const { sealed } = found
  const isReadable = Number(found.format) >= oldestFormat
  const [alerts] = isReadable ? await rows(session, 'SELECT count(*) AS count FROM alert_settings') : []
  const nodes = isReadable ? await rows(session, liveNodes) : []
  return {
    format: Number(found.format),
    lastOpenedBy: found.last_opened_by === null ? null : String(found.last_opened_by),
    isSealedWith: (key) => opens(sealed, key),
    workspaces: Number(found.workspaces),
    workspacesWithAlerts: Number(alerts?.count ?? 0),
    nodes: nodes.map(({ node_name, node_version, node_address }) => ({
      name: String(node_name),
      version: String(node_version),
      address: node_address === null ? null : String(node_address),
    })),
  }
}

const liveNodes = `SELECT node_name, node_version, node_address FROM cluster_nodes
  WHERE expires_ms > extract(epoch FROM clock_timestamp()) * 1000 ORDER BY node_name`

function opens(sealed: string, key: Uint8Array): boolean {
  try {
    createSealer(Buffer.from(key)).open(sealed, 'sealing_check')
    return true
  } catch (error) {
    if (error instanceof UnsealError) return false
    throw error
  }
}

async function rows(session: Session, sql: string): Promise<Record<string, unknown>[]> {
  return (await session.query(sql)).rows
}
