/**
 * Resolves destinations' host names: /etc/hosts first, then the system's DNS servers through c-ares.
 *
 * getaddrinfo is not used: libuv runs it on two threads of the whole process, and an abort frees neither. Forty names with an
 * unresponsive DNS server blocked the look-ups of every other workspace. Here it delays only the caller.
 */
import { Resolver } from 'node:dns/promises'
import { readFileSync, statSync } from 'node:fs'
import { resourceLimits } from '../contract/resource-limits.ts'

const { nameCacheEntries, nameCacheSeconds } = resourceLimits
const cache = new Map<string, { addresses: string[]; untilMs: number }>()

/**
 * Resolves to all addresses of a normalised host name. Rejects with ENOTFOUND or EAI_AGAIN, or when aborted with the signal's
 * reason. `servers` replaces the system's name servers.
 */
export async function lookUp(
  host: string,
  stop: AbortSignal,
  servers: readonly string[] | null = null,
): Promise<string[]> {
  const known = cache.get(host)
  if (known !== undefined && performance.now() < known.untilMs) return known.addresses
  cache.delete(host)
  const local = hosts().get(host) ?? (isLocalhost(host) ? ['127.0.0.1', '::1'] : undefined)
  if (local !== undefined) return local
  for (const name of candidates(host)) {
    const answer = await ask(name, stop, servers)
    if (answer === null) continue
    remember(host, answer.addresses, answer.seconds)
    return answer.addresses
  }
  throw nameError('ENOTFOUND', host)
}

/** Called when an address could not be reached: it may be outdated. */
export function forget(host: string): void {
  cache.delete(host)
}

function remember(host: string, addresses: string[], seconds: number): void {
  const kept = Math.min(seconds, nameCacheSeconds)
  if (kept > 0) cache.set(host, { addresses, untilMs: performance.now() + kept * 1_000 })
  if (cache.size > nameCacheEntries) cache.delete(cache.keys().next().value ?? host)
}

/** Null: the name does not exist. Each query has its own resolver, since `cancel` ends all queries of one. */
async function ask(
  name: string,
  stop: AbortSignal,
  servers: readonly string[] | null,
): Promise<{ addresses: string[]; seconds: number } | null> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 })
  if (servers !== null) resolver.setServers(servers)
  const cancel = () => resolver.cancel()
  stop.addEventListener('abort', cancel, { once: true })
  if (stop.aborted) cancel()
  try {
    const answers = await Promise.allSettled([
      resolver.resolve4(name, { ttl: true }),
      resolver.resolve6(name, { ttl: true }),
    ])
    if (stop.aborted) throw stop.reason
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (found.length > 0)
      return {
        addresses: found.map(({ address }) => address),
        seconds: Math.min(...found.map(({ ttl }) => ttl)),
      }
    const isAbsent = answers.every(
      (answer) => answer.status === 'fulfilled' || ['ENOTFOUND', 'ENODATA'].includes(answer.reason?.code),
    )
    if (isAbsent) return null
    throw nameError('EAI_AGAIN', name)
  } finally {
    stop.removeEventListener('abort', cancel)
  }
}

function nameError(code: string, host: string): Error {
  return Object.assign(new Error(`${code} ${host}`), { code })
}

function isLocalhost(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost')
}

/** Short names get the search domains of resolv.conf, as in Kubernetes; with `ndots` dots or more only afterwards. */
function candidates(host: string): string[] {
  const { search, ndots } = resolverSettings()
  const searched = search.map((domain) => `${host}.${domain}`)
  return host.split('.').length - 1 >= ndots ? [host, ...searched] : [...searched, host]
}

const resolverSettings = whenChanged('/etc/resolv.conf', (lines) => {
  const settings = { search: [] as string[], ndots: 1 }
  for (const [word, ...rest] of lines) {
    if (word === 'search' || word === 'domain') settings.search = rest.slice(0, 6)
    const option = word === 'options' ? rest.find((one) => one.startsWith('ndots:')) : undefined
    if (option !== undefined) settings.ndots = Math.min(15, Number(option.slice(6)) || 1)
  }
  return settings
})

const hosts = whenChanged('/etc/hosts', (lines) => {
  const addresses = new Map<string, string[]>()
  for (const [address = '', ...names] of lines)
    for (const name of names.map((one) => one.toLowerCase()))
      addresses.set(name, [...(addresses.get(name) ?? []), address])
  return addresses
})

/** Caches the parsed lines of a small file and reads it again when it has changed. A missing file has no lines. */
function whenChanged<T>(file: string, parse: (lines: string[][]) => T): () => T {
  let known: { changedMs: number; value: T } | undefined
  return () => {
    const changedMs = statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
    if (known?.changedMs !== changedMs) {
      const text = changedMs === 0 ? '' : readFileSync(file, 'utf8')
      const lines = text.split('\n').map((line) => line.replace(/[#;].*$/, '').trim())
      known = { changedMs, value: parse(lines.filter(Boolean).map((line) => line.split(/\s+/))) }
    }
    return known.value
  }
}
