/**
 * A TCP proxy between a driver and a real server, for what networks do: refuse, reset, go silent, trickle, lose a
 * reply after the server has done its work.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type ProxyMode =
  /** Everything passes. */
  | { kind: 'pass' }
  /** Connections are reset as soon as they are made. */
  | { kind: 'reset' }
  /** Connections are taken and nothing ever passes, neither way. */
  | { kind: 'black_hole' }
  /** From now on nothing passes on existing connections either, but they stay open: a half-open connection. */
  | { kind: 'freeze' }
  /** Nothing passes until another mode is set; then everything that was held does: a network that is gone for a while. */
  | { kind: 'hold' }
  /** One byte a second from the server. */
  | { kind: 'trickle' }
  /** Cut after this many bytes from the server. */
  | { kind: 'cut_after'; bytes: number }
  /**
   * The server's bytes are searched for `text`; the chunk that completes it is not passed on and the connection is
   * reset: the server has done its work and the reply is lost. `times` such cuts, then `after` (default `pass`).
   */
  | { kind: 'cut_at_reply'; text: string; times: number; after?: ProxyMode }
  /** The same for what the client sends: the server never gets it. */
  | { kind: 'cut_at_request'; text: string; times: number; after?: ProxyMode }

export interface TcpProxy {
  host: string
  port: number
  /** Holds for new connections and for what existing ones carry next. */
  setMode(mode: ProxyMode): void
  /** Resets the connections that are open now. */
  cut(): void
  /** Connections that are open now. */
  connections(): number
  /** Connections made so far. */
  accepted(): number
  /** How often `cut_at_reply`, `cut_at_request` or `cut_after` has cut. */
  cuts(): number
  /** The first bytes that the client of the last connection sent. */
  firstBytes(): Buffer
  stop(): Promise<void>
}

export async function startProxy(
  target: { host: string; port: number },
  host = '127.0.0.1',
): Promise<TcpProxy> {
  let mode: ProxyMode = { kind: 'pass' }
  let accepted = 0
  let cuts = 0
  let firstBytes = Buffer.alloc(0)
  const pairs = new Set<[Socket, Socket]>()
  const timers = new Set<NodeJS.Timeout>()

  const server = createServer((client) => {
    accepted += 1
    firstBytes = Buffer.alloc(0)
    if (mode.kind === 'reset') {
      client.on('error', () => {})
      client.resetAndDestroy()
      return
    }
    const upstream = connect(target)
    const pair: [Socket, Socket] = [client, upstream]
    pairs.add(pair)
    const end = () => {
      pairs.delete(pair)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of pair) {
      socket.on('error', end)
      socket.on('close', end)
    }
    client.on('data', (chunk) => {
      if (firstBytes.length < 64) firstBytes = Buffer.concat([firstBytes, chunk])
      if (mode.kind === 'cut_at_request' && chunk.includes(mode.text)) return cutOnce()
      if (mode.kind !== 'black_hole' && mode.kind !== 'freeze') upstream.write(chunk)
    })
    const cutOnce = () => {
      cuts += 1
      if (mode.kind === 'cut_at_reply' || mode.kind === 'cut_at_request') {
        const { times, after = { kind: 'pass' } } = mode
        mode = times > 1 ? { ...mode, times: times - 1 } : after
      }
      client.resetAndDestroy()
      end()
    }
    upstream.on('data', replyCarrier(client, cutOnce))
    // A `data` listener makes a stream flow.
    if (mode.kind === 'hold') for (const socket of pair) socket.pause()
  })

  function replyCarrier(client: Socket, cut: () => void): (chunk: Buffer) => void {
    let carried = 0
    let seen = ''
    return (chunk) => {
      if (mode.kind === 'black_hole' || mode.kind === 'freeze') return
      if (mode.kind === 'trickle') return trickle(client, chunk)
      if (mode.kind === 'cut_after') {
        client.write(chunk.subarray(0, Math.max(0, mode.bytes - carried)))
        carried += chunk.length
        if (carried >= mode.bytes) cut()
        return
      }
      if (mode.kind === 'cut_at_reply') {
        seen = (seen + chunk.toString('latin1')).slice(-4096)
        if (seen.includes(mode.text)) return cut()
      }
      client.write(chunk)
    }
  }

  function trickle(client: Socket, chunk: Buffer): void {
    let at = 0
    const timer = setInterval(() => {
      if (client.destroyed || at >= chunk.length) {
        clearInterval(timer)
        timers.delete(timer)
      } else client.write(chunk.subarray(at, ++at))
    }, 1000)
    timers.add(timer.unref())
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, host, resolve)
  })
  return {
    host,
    port: (server.address() as AddressInfo).port,
    setMode(next) {
      mode = next
      for (const socket of [...pairs].flat()) {
        if (next.kind === 'hold') socket.pause()
        else socket.resume()
      }
    },
    cut() {
      for (const [client, upstream] of pairs) {
        client.resetAndDestroy()
        upstream.destroy()
      }
    },
    connections: () => pairs.size,
    accepted: () => accepted,
    cuts: () => cuts,
    firstBytes: () => firstBytes,
    async stop() {
      for (const timer of timers) clearInterval(timer)
      const closed = new Promise((resolve) => server.close(resolve))
      for (const [client, upstream] of pairs) {
        client.destroy()
        upstream.destroy()
      }
      await closed
    },
  }
}
