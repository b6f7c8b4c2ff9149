/**
 * The addresses of this service, which are never a destination whatever the policy allows: its listeners, the NATS servers of
 * `buffer.nats` and the database of `metadata.url`. A record sent there would loop forever, or reach other workspaces.
 *
 * Addresses are compared after the look-up, so that an alias of the same server is recognized too.
 */
import os from 'node:os'
import type { OwnAddress } from './driver.ts'
import { addressForms, isLoopback, normaliseHost, parseLiteral } from './guards.ts'
import { lookUp } from './resolver.ts'

/** The server to dial. `database`: for a server with several databases. */
export interface Endpoint {
  port: number | null
  database?: string | undefined
}

/** Decides by the spelling of the host only; `host` is normalised. */
export function isNamedOwn(host: string, endpoint: Endpoint, own: readonly OwnAddress[] = []): boolean {
  const addresses = host === 'localhost' || host.endsWith('.localhost') ? ['127.0.0.1', '::1'] : [host]
  return own.some((one) => {
    if (!isSameService(one, endpoint)) return false
    const name = normaliseHost(one.host)
    return name === host || includesAny(literalAddresses(name), addresses)
  })
}

/** `addresses`: the results of the host's look-up. */
export async function isOwnAddress(
  addresses: readonly string[],
  endpoint: Endpoint,
  own: readonly OwnAddress[] = [],
  stop: AbortSignal,
): Promise<boolean> {
  for (const one of own) {
    if (!isSameService(one, endpoint)) continue
    const name = normaliseHost(one.host)
    const literals = literalAddresses(name)
    const resolved = literals.length > 0 ? literals : await lookUp(name, stop).catch(() => [])
    if (includesAny(resolved, addresses)) return true
  }
  return false
}

function isSameService({ port, database }: OwnAddress, endpoint: Endpoint): boolean {
  if (port !== endpoint.port) return false
  return database === undefined || endpoint.database === undefined || database === endpoint.database
}

const everyAddress = 'every address of this machine'

/** Empty for a name that must be looked up. */
function literalAddresses(name: string): string[] {
  if (name === '0.0.0.0' || name === '::') return [everyAddress]
  if (name === 'localhost') return ['127.0.0.1', '::1']
  return parseLiteral(name) === null ? [] : [name]
}

function includesAny(own: readonly string[], addresses: readonly string[]): boolean {
  const forms = new Set(own.flatMap(addressForms))
  return addresses.some((address) => {
    if (own.includes(everyAddress) && isOfThisMachine(address)) return true
    return addressForms(address).some((form) => forms.has(form))
  })
}

function isOfThisMachine(address: string): boolean {
  if (isLoopback(address)) return true
  const interfaces = Object.values(os.networkInterfaces()).flatMap((list) => list ?? [])
  const forms = new Set(interfaces.flatMap((one) => addressForms(one.address)))
  return addressForms(address).some((form) => forms.has(form))
}
