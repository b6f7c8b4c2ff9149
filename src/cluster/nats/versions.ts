/**
 * Reads the versions of the nats-servers, and decides which of them can hold replicas of a stream. A server sends its
 * version before it asks for a password or for TLS, so a plain socket is enough.
 */
import { connect } from 'node:net'
import type { NatsSpec } from '../../log/buffer-spec.ts'

/**
 * The oldest version that returned every replica as acknowledged after its leader was paused or disconnected and
 * resumed. 2.9.10 did not: in half of 12 such tests, one replica had other messages in place of acknowledged ones
 * (docs/cluster.md).
 */
export const oldestWithReplicas = '2.10.27'

export interface ServerVersion {
  /** As in `buffer.nats`. */
  server: string
  /** Null when the server does not respond or does not state it. */
  version: string | null
}

const answerWithinMs = 2_000
/** The limit of a server's greeting, which is about 1 KiB. */
const greetingMaxBytes = 64 * 1024
const defaultPort = 4222

/** In the order of `spec.servers`. */
export function serverVersions({ servers }: Pick<NatsSpec, 'servers'>): Promise<ServerVersion[]> {
  return Promise.all(servers.map(async (server) => ({ server, version: await versionAt(server) })))
}

/** The servers that are known to be older than `oldestWithReplicas`. */
export function tooOldForReplicas(found: readonly ServerVersion[]): ServerVersion[] {
  return found.filter(({ version }) => version !== null && isOlder(version, oldestWithReplicas))
}

/** A text for the operator: the servers, the risk and what to do. */
export function oldServersText(old: readonly ServerVersion[]): string {
  const list = old.map(({ server, version }) => `${server} is nats-server ${version}`).join(', ')
  return `${list}: three replicas need ${oldestWithReplicas} or newer on every one of them. An older leader that is paused or cut off, and then continues, can lose acknowledged messages`
}

function versionAt(server: string): Promise<string | null> {
  const { hostname, port } = new URL(server)
  // An IPv6 address is in brackets in a URL.
  const host = hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port || defaultPort), timeout: answerWithinMs })
    const deadline = setTimeout(() => end(null), answerWithinMs)
    let said = ''
    const end = (version: string | null) => {
      clearTimeout(deadline)
      socket.destroy()
      resolve(version)
    }
    socket.setEncoding('utf8').on('data', (text: string) => {
      said += text
      const line = /^INFO (\{.*\})\s*\r?\n/.exec(said)?.[1]
      if (line !== undefined) end(versionIn(line))
      else if (said.length > greetingMaxBytes || said.includes('\n')) end(null)
    })
    socket.once('error', () => end(null))
    socket.once('close', () => end(null))
  })
}

function versionIn(info: string): string | null {
  try {
    const { version } = JSON.parse(info) as { version?: unknown }
    return typeof version === 'string' && numbersOf(version) !== null ? version.slice(0, 40) : null
  } catch {
    return null
  }
}

function isOlder(version: string, than: string): boolean {
  const [own, other] = [numbersOf(version), numbersOf(than)]
  if (own === null || other === null) return false
  const at = own.findIndex((number, index) => number !== other[index])
  return at >= 0 && own[at]! < other[at]!
}

function numbersOf(version: string): number[] | null {
  const found = /^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?!\d)/.exec(version)
  return found === null ? null : found.slice(1).map(Number)
}
