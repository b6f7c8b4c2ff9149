/**
 * How undici dials. Separate from egress.ts, which every thread loads, so that undici is loaded only where it is
 * needed.
 */
import { buildConnector } from 'undici'
import type { EgressPolicy } from '../driver.ts'
import { dial } from '../egress.ts'
import { guardSocket, type ReadLimit } from '../guarded-socket.ts'
import { withoutInterimResponses } from './interim-responses.ts'

/**
 * A `connect` option for undici. SNI and the Host header keep the name; only the address is chosen here. Aborting
 * `closing` ends connections in progress, for example to a server that never answers the TLS handshake: undici itself
 * ends only established ones.
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
