/**
 * Limits the connections of one address at a time (setting `http.max_connections_per_address`). An IPv6 /64 network
 * is one address: a client with one address there has all of them. Trusted proxies forward the connections of all
 * clients and are not counted.
 */
import { peerAddress } from '../../ingest/client-ip.ts'
import type { Logger } from '../../platform/log.ts'

export interface ConnectionQuota {
  /** Called when a connection opens. Null: this address may have no more; else to be called once when it has closed. */
  take(peer: Uint8Array): (() => void) | null
}

export interface ConnectionQuotaOptions {
  /** 0: as many as it likes. */
  perAddress: number
  isTrusted(peer: Uint8Array): boolean
  log: Logger
  /** A monotonic clock in ms. */
  now?: () => number
}

/** Who is turned away comes again and again: the log says so no more often. */
const logEveryMs = 60_000

export function connectionQuota({
  perAddress,
  isTrusted,
  log,
  now = () => performance.now(),
}: ConnectionQuotaOptions): ConnectionQuota {
  /** No more entries than connections. */
  const open = new Map<string, number>()
  let loggedAt = Number.NEGATIVE_INFINITY
  let turnedAway = 0

  const turnAway = (address: string) => {
    turnedAway += 1
    if (now() - loggedAt < logEveryMs) return
    loggedAt = now()
    log.warn({ address, most: perAddress, turned_away: turnedAway }, 'http.address_full')
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

/** `192.0.2.1`, or `2001:db8:0:0::/64`. Empty for a socket that has no address any more. */
function nameOf(peer: Uint8Array): string {
  const address = peerAddress(peer)
  if (address === null || 'octets' in address) return String(address ?? '')
  const network = address.parts.slice(0, 4).map((part) => part.toString(16))
  return `${network.join(':')}::/64`
}
