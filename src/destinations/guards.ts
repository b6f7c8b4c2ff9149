/**
 * The protection from destinations: the addresses that one can have, and, at the end, the guard of its sockets.
 * Nothing here resolves names.
 *
 * Some addresses are always rejected, whatever the settings allow: those that belong to no server (unspecified,
 * multicast, reserved), and those where clouds serve credentials to any caller (link-local and a few fixed ones). The
 * settings decide the rest: deny wins over allow, and loopback and private addresses depend on `egress.private`:
 *
 *   allow   dialed
 *   deny    not dialed, except for what `egress.allow` lists
 *   auto    like allow while the data directory has one workspace, like deny from the second on
 *
 * An IPv6 address that carries an IPv4 one (mapped, compatible, NAT64, 6to4) is checked as both.
 */
import type { Socket } from 'node:net'
import { domainToASCII } from 'node:url'
import ipaddr from 'ipaddr.js'
import { resourceLimits } from '../contract/resource-limits.ts'
import { entryWithPort } from '../settings/server-urls.ts'
import { DeliveryError, type EgressPolicy } from './driver.ts'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = [Address, number]

const rejectedAlways = ranges(
  '0.0.0.0/8',
  '169.254.0.0/16', // link-local; metadata of most clouds
  '100.100.100.200/32', // metadata of Alibaba Cloud
  '168.63.129.16/32', // Azure's platform address
  '192.0.0.0/24', // protocol assignments; metadata of Oracle Cloud
  '224.0.0.0/4',
  '240.0.0.0/4', // reserved and broadcast
  '::/128',
  '100::/64', // discard
  '64:ff9b:1::/48', // local NAT64: the position of the IPv4 address is unknown
  '2001::/32', // Teredo: the IPv4 address is obfuscated
  'fe80::/10',
  'fd00:ec2::254/128', // metadata of AWS
  'fd20:ce::254/128', // metadata of Google Cloud
  'ff00::/8',
)

const loopbackRanges = ranges('127.0.0.0/8', '::1/128')

const privateRanges = ranges(
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10', // carrier-grade NAT
  '198.18.0.0/15', // benchmarking
  '::1/128',
  'fc00::/7',
  'fec0::/10', // site-local, deprecated
)

/** True if loopback and private addresses are denied now; with `auto` this changes while the daemon runs. */
export function isPrivateDenied({ private: rule, workspaces }: EgressPolicy): boolean {
  if (rule !== 'auto') return rule === 'deny'
  // An unknown number of workspaces must be treated as several.
  return workspaces === undefined || Atomics.load(new Int32Array(workspaces), 0) > 1
}

/**
 * True if this address can be dialed for this host name (the address itself if there is no name) and port, if known.
 */
export function isAddressAllowed(
  address: string,
  host: string,
  policy: EgressPolicy,
  port: number | null = null,
): boolean {
  const outer = parseLiteral(address)
  if (outer === null) return false
  const embedded = embeddedIPv4(outer)
  const both = embedded === null ? [outer] : [outer, embedded]
  const within = (list: readonly Range[]) => both.some((candidate) => list.some(matches(candidate)))
  if (within(rejectedAlways)) return false
  if (isHostListed(host, policy.deny) || within(rangesOf(policy.deny))) return false
  if (!isPrivateDenied(policy) || !within(privateRanges)) return true
  const allow = entriesFor(port, policy.allow)
  return isHostListed(host, allow) || within(rangesOf(allow))
}

/**
 * The entries of the list that apply to all ports or to this one (`127.0.0.1:5432`, `[::1]:5432`), without the port.
 */
function entriesFor(port: number | null, list: readonly string[]): string[] {
  return list.flatMap((entry) => {
    const [, bracketed, plain, ownPort] = entryWithPort.exec(entry) ?? []
    if (ownPort === undefined) return [entry]
    return Number(ownPort) === port ? [(bracketed ?? plain)!] : []
  })
}

/** An address, and the IPv4 address that it carries, each in canonical form. Empty if the text is not an address. */
export function addressForms(address: string): string[] {
  const outer = parseLiteral(address)
  if (outer === null) return []
  const embedded = embeddedIPv4(outer)
  return [outer, ...(embedded === null ? [] : [embedded])].map((one) => one.toNormalizedString())
}

export function isLoopback(address: string): boolean {
  const literal = parseLiteral(address)
  return literal !== null && loopbackRanges.some(matches(literal))
}

/** Host name without brackets, trailing dots, capitals or non-ASCII letters; '' if it cannot be a host. */
export function normaliseHost(host: string): string {
  const bare = /^\[(.*)\]$/.exec(host)?.[1] ?? host
  if (bare.includes(':')) return bare.toLowerCase()
  return domainToASCII(bare).toLowerCase().replace(/\.+$/, '')
}

/**
 * Parses an address in any spelling that the C library accepts (`0x7f.1`, `2130706433`, `0177.0.0.1`); null if it is
 * none.
 */
export function parseLiteral(host: string): Address | null {
  return ipaddr.isValid(host) ? ipaddr.parse(host) : null
}

/**
 * True for an obscured literal: IPv4 in any form except four decimal numbers, or wrapped in IPv6. There is no
 * legitimate use for these, and other filters interpret them differently.
 */
export function isDisguised(host: string, literal: Address): boolean {
  // Compares the original spelling, because a normalised host is already in canonical form.
  if (literal instanceof ipaddr.IPv4) return literal.toString() !== host
  const embedded = embeddedIPv4(literal)
  return embedded !== null && (isMapped(literal) || isCompatible(literal))
}

/** Matches a name against the deny or allow list; `*.example.com` matches subdomains, not the domain itself. */
export function isHostListed(host: string, list: readonly string[]): boolean {
  return list.some((entry) => {
    const name = entry.toLowerCase()
    return name.startsWith('*.')
      ? host.endsWith(name.slice(1)) && host.length > name.length - 1
      : host === name
  })
}

function embeddedIPv4(address: Address): ipaddr.IPv4 | null {
  if (address instanceof ipaddr.IPv4) return null
  const bytes = address.toByteArray()
  if (isMapped(address) || isCompatible(address) || address.match(nat64)) {
    return new ipaddr.IPv4(bytes.slice(12))
  }
  if (address.match(sixToFour)) return new ipaddr.IPv4(bytes.slice(2, 6))
  return null
}

const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
const sixToFour = ipaddr.IPv6.parseCIDR('2002::/16')
const compatible = ipaddr.IPv6.parseCIDR('::/96')
const translated = ipaddr.IPv6.parseCIDR('::ffff:0:0:0/96')

function isMapped(address: ipaddr.IPv6): boolean {
  return address.isIPv4MappedAddress() || address.match(translated)
}
/** `::a.b.c.d`, except for `::` and `::1`, which are separate addresses. */
function isCompatible(address: ipaddr.IPv6): boolean {
  return (
    address.match(compatible) &&
    address
      .toByteArray()
      .slice(12, 15)
      .some((byte) => byte !== 0)
  )
}

function matches(address: Address): (range: Range) => boolean {
  return ([network, bits]) => address.kind() === network.kind() && address.match(network, bits)
}

function ranges(...list: string[]): Range[] {
  return list.map((entry) => ipaddr.parseCIDR(entry))
}

/** The addresses and CIDRs of a settings list, without its host names. */
function rangesOf(list: readonly string[]): Range[] {
  return list.flatMap((entry): Range[] => {
    if (ipaddr.isValidCIDR(entry)) return [ipaddr.parseCIDR(entry)]
    const address = parseLiteral(entry)
    return address === null ? [] : [[address, address.kind() === 'ipv4' ? 32 : 128]]
  })
}

/** Counts the bytes that a driver reads during one attempt, on all of its sockets. */
export class ReadLimit {
  #bytes = 0
  #error: DeliveryError | null = null

  /** Starts the count of a new attempt. */
  begin(): void {
    this.#bytes = 0
    this.#error = null
  }

  /** The reason why reading was stopped during this attempt, or null. Client libraries hide a socket's error. */
  get error(): DeliveryError | null {
    return this.#error
  }

  /** Returns the error once the limit is exceeded. */
  count(bytes: number): DeliveryError | null {
    this.#bytes += bytes
    if (this.#bytes > resourceLimits.destinationReadBytes) this.#error ??= tooLarge()
    return this.#error
  }
}

/**
 * Guards for every connection to a destination, raw or TLS. The server may be malicious, or simply the wrong one.
 *
 *   bytes read      counted per attempt; above the limit the socket is destroyed (`response_too_large`)
 *   parser throws   client libraries parse in the socket's `data` event, where an exception would end the process:
 *                   it is caught and the socket destroyed (`protocol_error`)
 *   errors          always have a listener, even after the library has detached from the socket
 *
 * Modifies the socket itself, so that libraries see the object they expect.
 */
export function guardSocket<T extends Socket>(socket: T, reads?: ReadLimit): T {
  socket.on('error', () => {})
  const { push } = socket
  Object.assign(socket, {
    // All bytes that are read pass through here, whatever the reader.
    push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
      const error = chunk === null ? null : reads?.count(chunk.length)
      if (!error) return Reflect.apply(push, socket, [chunk, encoding])
      socket.destroy(error)
      return false
    },
  })
  return filterData(socket, (chunk) => chunk)
}

/**
 * Passes the result of `filter` to the listeners of `data`, or nothing if it is empty. An error thrown by the filter or
 * a listener destroys the socket.
 */
export function filterData<T extends Socket>(socket: T, filter: (chunk: Buffer) => Buffer): T {
  const { emit } = socket
  return Object.assign(socket, {
    emit(event: string, ...args: unknown[]): boolean {
      const [chunk] = args
      if (event !== 'data' || !Buffer.isBuffer(chunk)) return Reflect.apply(emit, socket, [event, ...args])
      try {
        const passed = filter(chunk)
        return passed.length > 0 && Reflect.apply(emit, socket, [event, passed])
      } catch (error) {
        socket.destroy(protocolError('The server sent data that its protocol does not allow.', error))
        return true
      }
    },
  })
}

/** Keeps a DeliveryError that a parser threw, since it is more specific. */
export function protocolError(message: string, cause?: unknown): DeliveryError {
  if (cause instanceof DeliveryError) return cause
  return new DeliveryError('transient', 'protocol_error', message, { cause })
}

function tooLarge(): DeliveryError {
  const mebibytes = resourceLimits.destinationReadBytes / 1024 / 1024
  const message = `The destination sent more than ${mebibytes} MiB during one attempt; the connection was dropped.`
  return new DeliveryError('transient', 'response_too_large', message)
}

/** For work that does not always settle when it is aborted: rejects with the signal's reason if the signal comes first. */
export function untilStopped<T>(work: Promise<T>, stop: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onStop = () => reject(stop.reason)
    stop.addEventListener('abort', onStop, { once: true })
    work.then(resolve, reject).finally(() => stop.removeEventListener('abort', onStop))
    if (stop.aborted) onStop()
  })
}
