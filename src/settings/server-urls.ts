/**
 * URLs of the servers that hold the state of a cluster. They can contain a user and password, so such a URL is a
 * secret. `shownUrl` removes them for display.
 */
const natsPort = 4222

/** A host or an address with a port. An IPv6 address is in brackets. */
export const entryWithPort = /^(?:\[([^\]]+)\]|([^:[\]/]+)):(\d{1,5})$/

/** Null: not a PostgreSQL URL. */
export function databaseUrl(value: unknown): string | null {
  const url = typeof value === 'string' ? parse(value.trim()) : null
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol)) return null
  return /^\/[^/]+$/.test(url.pathname) && url.hash === '' ? url.href : null
}

/**
 * Accepts a list, or text with commas. Each URL gets a scheme and port; missing ones are those of the first URL.
 * Null: one is not a NATS URL, or they contain different users.
 */
export function natsServers(value: unknown): string[] | null {
  const items = typeof value === 'string' ? value.split(',') : value
  if (!Array.isArray(items) || items.length === 0) return null
  const servers: URL[] = []
  for (const item of items) {
    const url = natsServer(item, servers[0]?.protocol ?? 'nats:')
    if (url === null) return null
    servers.push(url)
  }
  const users = new Set(servers.filter((one) => one.username !== '').map(credentialsOf))
  return users.size > 1 ? null : servers.map((one) => one.href)
}

function natsServer(item: unknown, scheme: string): URL | null {
  if (typeof item !== 'string') return null
  const text = item.trim()
  const url = parse(text.includes('://') ? text : `${scheme}//${text}`)
  if (url === null || !['nats:', 'tls:'].includes(url.protocol) || url.hostname === '') return null
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') return null
  if (url.port === '') url.port = String(natsPort)
  url.pathname = ''
  return url
}

export interface NatsLogin {
  servers: string[]
  user: string | null
  password: string | null
}

/** Converts the result of `natsServers` into connection options. */
export function natsLogin(servers: readonly string[]): NatsLogin {
  const urls = servers.map((one) => new URL(one))
  const { username, password } = urls.find((one) => one.username !== '') ?? {}
  return {
    servers: urls.map((one) => `${one.protocol}//${one.host}`),
    user: username === undefined ? null : decodeURIComponent(username),
    password: username === undefined ? null : decodeURIComponent(password ?? ''),
  }
}

/** The URL for display, without its password. */
export function shownUrl(text: string): string {
  const url = new URL(text)
  if (url.password !== '') url.password = hidden
  for (const name of [...url.searchParams.keys()]) if (/pass/i.test(name)) url.searchParams.set(name, hidden)
  return url.href
}

const hidden = '***'

function credentialsOf({ username, password }: URL): string {
  return `${username}:${password}`
}

function parse(text: string): URL | null {
  try {
    const url = new URL(text)
    // A single % would otherwise throw only when the password is used.
    decodeURIComponent(`${url.username}${url.password}`)
    return url
  } catch {
    return null
  }
}
