/**
 * Determines the client address of a request (docs/dev/contract.md#client-address): the socket's peer, or, if that is
 * in `trusted_proxies`, the right-most X-Forwarded-For hop that is not. The left-most entry can be forged and is never
 * trusted.
 *
 * Addresses are normalized: IPv6 compressed, IPv4-mapped IPv6 as IPv4.
 */
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = [Address, number]

export interface ClientIp {
  /** `peer` has 4 or 16 bytes. `forwardedFor` is called only for a trusted proxy. Null when the address is unknown. */
  of(peer: Uint8Array, forwardedFor: () => string): string | null
  /** True when it is in `trusted_proxies`. */
  isTrusted(peer: Uint8Array): boolean
  /** Replaces `trusted_proxies`, after SIGHUP. */
  trust(cidrs: readonly string[]): void
}

const maxRemembered = 10_000

export function createClientIp(trustedProxies: readonly string[]): ClientIp {
  let trusted = trustedProxies.map(parseRange)
  // Cached, because keep-alive connections repeat the same peer thousands of times.
  const peers = new Map<string, { text: string; isTrusted: boolean }>()

  const lookUp = (peer: Uint8Array) => {
    const name = Buffer.from(peer.buffer, peer.byteOffset, peer.byteLength).toString('latin1')
    let known = peers.get(name)
    if (known === undefined) {
      const address = peerAddress(peer)!
      known = { text: address.toString(), isTrusted: isWithin(address, trusted) }
      if (peers.size >= maxRemembered) peers.clear()
      peers.set(name, known)
    }
    return known
  }

  return {
    of: (peer, forwardedFor) => {
      if (!isAddress(peer)) return null
      const { text, isTrusted } = lookUp(peer)
      return isTrusted ? lastUntrusted(text, forwardedFor(), trusted) : text
    },
    isTrusted: (peer) => isAddress(peer) && lookUp(peer).isTrusted,
    trust: (cidrs) => {
      trusted = cidrs.map(parseRange)
      peers.clear()
    },
  }
}

/** Walks the hops from the right. An invalid entry ends the walk, because the entries to its left cannot be trusted. */
function lastUntrusted(peer: string, forwardedFor: string, trusted: readonly Range[]): string {
  let nearest = peer
  for (const hop of forwardedFor.split(',').reverse()) {
    const address = parseHop(hop.trim())
    if (address === null) return nearest
    nearest = address.toString()
    if (!isWithin(address, trusted)) return nearest
  }
  return nearest
}

/** Accepts `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. */
function parseHop(hop: string): Address | null {
  const bare = /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+)(?::\d+)?$/.exec(hop)?.[1] ?? hop
  const isPlain =
    ipaddr.IPv4.isValidFourPartDecimal(bare) || (ipaddr.IPv6.isValid(bare) && !bare.includes('%'))
  return isPlain ? canonical(ipaddr.parse(bare)) : null
}

function parseRange(cidr: string): Range {
  const [address, bits] = cidr.includes('/')
    ? ipaddr.parseCIDR(cidr)
    : [ipaddr.parse(cidr), ipaddr.parse(cidr).kind() === 'ipv4' ? 32 : 128]
  const plain = canonical(address)
  return [plain, plain.kind() === address.kind() ? bits : Math.max(0, bits - 96)]
}

function isWithin(address: Address, ranges: readonly Range[]): boolean {
  return ranges.some(([range, bits]) => {
    if (address instanceof ipaddr.IPv4) return range instanceof ipaddr.IPv4 && address.match(range, bits)
    return range instanceof ipaddr.IPv6 && address.match(range, bits)
  })
}

function isAddress(peer: Uint8Array): boolean {
  return peer.byteLength === 4 || peer.byteLength === 16
}

/** Returns IPv4-mapped IPv6 as IPv4. Null for a socket that no longer has an address. */
export function peerAddress(peer: Uint8Array): Address | null {
  return isAddress(peer) ? canonical(ipaddr.fromByteArray([...peer])) : null
}

function canonical(address: Address): Address {
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? address.toIPv4Address() : address
}

/** The first address of the /24 network of an IPv4 address, or of the /48 network of an IPv6 address. */
export function truncatedAddress(address: string): string {
  const parsed = canonical(ipaddr.parse(address))
  if (parsed instanceof ipaddr.IPv4) return [...parsed.octets.slice(0, 3), 0].join('.')
  return new ipaddr.IPv6([...parsed.parts.slice(0, 3), 0, 0, 0, 0, 0]).toString()
}

/**
 * An IPv4 address itself, or the /64 network (`2001:db8::/64`) of an IPv6 address, because a client controls its whole
 * network.
 */
export function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const network = ipaddr.IPv6.parse(address).parts.slice(0, 4)
  return `${network.map((part) => part.toString(16)).join(':')}::/64`
}
