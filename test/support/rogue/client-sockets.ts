/** The connections that this process makes: how much is read from each, and whether one is left over. */
import { subscribe } from 'node:diagnostics_channel'
import { readdirSync } from 'node:fs'
import type { Socket } from 'node:net'

export interface ClientSockets {
  /** Bytes read from a server on this port, on all connections so far: encrypted ones where it speaks TLS. */
  bytesRead(port: number): number
  /** Sockets to a server on this port that are not destroyed. */
  open(port: number): number
}

/** Counts from now on. */
export function watchClientSockets(): ClientSockets {
  const read = new Map<number, number>()
  const alive = new Map<number, Set<Socket>>()
  subscribe('net.client.socket', (message) => {
    const { socket } = message as { socket: Socket }
    socket.once('connect', () => {
      const port = socket.remotePort ?? 0
      const sockets = alive.get(port) ?? new Set()
      alive.set(port, sockets.add(socket))
      socket.once('close', () => {
        sockets.delete(socket)
        read.set(port, (read.get(port) ?? 0) + socket.bytesRead)
      })
    })
  })
  const openOn = (port: number) => [...(alive.get(port) ?? [])].filter((socket) => !socket.destroyed)
  return {
    open: (port) => openOn(port).length,
    bytesRead: (port) => openOn(port).reduce((sum, socket) => sum + socket.bytesRead, read.get(port) ?? 0),
  }
}

export function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length
}
