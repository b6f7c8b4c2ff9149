/**
 * Limits the number of simultaneous connections from one address (setting `http.max_connections_per_address`). An
 * IPv6 /64 network counts as one address: a client that has one address of it can use them all. Trusted proxies
 * forward the connections of all clients and are not counted.
 */
import { peerAddress } from '../../ingest/client-ip.ts'
import type { Logger } from '../../platform/log.ts'

export interface ConnectionQuota {
  /**
   * Called when a connection opens. Returns null if the address has reached its limit, otherwise a function to call
   * once when the connection has closed.
   */
  take(peer: Uint8Array): (() => void) | null
}

export interface ConnectionQuotaOptions {
  /** 0: no limit. */
  perAddress: number
  isTrusted(peer: Uint8Array): boolean
  log: Logger
  /** A monotonic clock in ms. */
  now?: () => number
}

/** A client that is turned away usually connects again and again, so the log reports at max_connections one event per minute. */
const logEveryMs = 60_000

export function connectionQuota({
  perAddress,
  isTrusted,
  log,
  now = () => performance.now(),
}: ConnectionQuotaOptions): ConnectionQuota {
  /** Connections by address. It never has more entries than there are connections. */
  const open = new Map<string, number>()
  let loggedAt = Number.NEGATIVE_INFINITY
  let turnedAway = 0

  const turnAway = (address: string) => {
    turnedAway += 1
    if (now() - loggedAt < logEveryMs) return
    loggedAt = now()
    log.warn({ address, max_connections: perAddress, turned_away: turnedAway }, 'http.address_full')
    turnedAway = 0
  }

  return {
    take: (peer) => {
      if (perAddress === 0 || isTrusted(peer)) return () => {}
      const address = nameOf(peer)
      const count = open.get(address) ?? 0
      if (count >= perAddress) {
        turnAway(address)
        return null
      }
      open.set(address, count + 1)
      return () => {
        const left = (open.get(address) ?? 1) - 1
        if (left > 0) open.set(address, left)
        else open.delete(address)
      }
    },
  }
}

/** `192.0.2.1`, or `2001:db8:0:0::/64`. Empty for a socket that no longer has an address. */
function nameOf(peer: Uint8Array): string {
  const address = peerAddress(peer)
  if (address === null || 'octets' in address) return String(address ?? '')
  const network = address.parts.slice(0, 4).map((part) => part.toString(16))
  return `${network.join(':')}::/64`
}
