/**
 * Checks whether an address can be listened on. uWebSockets listens with SO_REUSEPORT: a second daemon on the same
 * port would start without an error and take half of the connections. A plain socket of node:net reports the
 * conflict, so one is opened first.
 */
import { createServer } from 'node:net'
import { formatAddress } from '../../settings/config.ts'
import type { ListenAddress } from '../../settings/settings.ts'

/** Another process listens on the address: exit code 75. */
export class AddressInUseError extends Error {
  readonly address: string
  constructor(surface: string, address: ListenAddress) {
    super(`${surface}: ${formatAddress(address)} is in use by another process`)
    this.name = 'AddressInUseError'
    this.address = formatAddress(address)
  }
}

/**
 * The address cannot be listened on at all (not an address of this machine, not permitted, unknown name): a
 * configuration error.
 */
export class ListenError extends Error {
  constructor(surface: string, address: ListenAddress, reason: string) {
    super(`${surface}: cannot listen on ${formatAddress(address)} (${reason})`)
    this.name = 'ListenError'
  }
}

/** Resolves with the port if the address is free. `surface` names the setting in errors. Port 0: any free port. */
export function requireFreeAddress(surface: string, address: ListenAddress): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') reject(new AddressInUseError(surface, address))
      else reject(new ListenError(surface, address, error.code ?? error.message))
    })
    probe.listen({ host: address.host, port: address.port, exclusive: true }, () => {
      const bound = probe.address()
      const port = typeof bound === 'object' && bound !== null ? bound.port : address.port
      probe.close(() => resolve(port))
    })
  })
}
