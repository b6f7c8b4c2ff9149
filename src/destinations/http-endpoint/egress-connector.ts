/** How undici dials: apart from egress.ts, which every thread loads, undici only where it is needed. */
import { buildConnector } from 'undici'
import type { EgressPolicy } from '../driver.ts'
import { dial } from '../egress.ts'
import { guardSocket, type ReadLimit } from '../guarded-socket.ts'
import { withoutInterimResponses } from './interim-responses.ts'

/**
 * A `connect` option for undici. SNI and the Host header keep the name; only the address is ours. `closing`: undici ends
 * only connections that are made; those under way, a server that never answers a TLS greeting among them, end with this.
 */
export function egressConnector(
  policy: EgressPolicy,
  reads: ReadLimit,
  closing: AbortSignal,
): buildConnector.connector {
  const secure = buildConnector({ timeout: 10_000 })
  return (options, callback) => {
    const isTls = options.protocol === 'https:'
    const port = Number(options.port) || (isTls ? 443 : 80)
    dial({ host: options.hostname, port }, policy, { reads, signal: closing }).then(
      (socket) => {
        if (!isTls) return callback(null, withoutInterimResponses(socket))
        const drop = () => socket.destroy()
        closing.addEventListener('abort', drop, { once: true })
        secure({ ...options, httpSocket: socket }, (...[error, secured]) => {
          closing.removeEventListener('abort', drop)
          if (error !== null) callback(error, null)
          else callback(null, withoutInterimResponses(guardSocket(secured, reads)))
        })
      },
      (error) => callback(error, null),
    )
  }
}
