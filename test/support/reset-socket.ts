import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/**
 * Ends a connection as a peer that dies. A socket whose end is on its way cannot be reset: libuv refuses (EINVAL), the
 * handle is never closed, and the process spins or waits forever. A TLS socket cannot send a reset at all.
 */
export function resetSocket(socket: Socket): void {
  if (socket instanceof TLSSocket || socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}
