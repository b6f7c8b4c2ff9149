/**
 * A real HTTP server that keeps every request it got and answers as told: the other end of HTTP endpoint
 * destinations. By default every request is answered 200.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { resetSocket } from './reset-socket.ts'
import { selfSignedCertificate } from './tls.ts'

export interface SinkDelivery {
  method: string
  path: string
  headers: IncomingHttpHeaders
  /** As sent, before decompression. */
  body: Buffer
  /** The body as text, decompressed. */
  text: string
  /** Counts the connections of this sink from 1: equal for requests that shared one. */
  connection: number
}

export interface SinkAnswer {
  /** Default 200. */
  status?: number
  headers?: Record<string, string>
  body?: string | Buffer
  /** Answer this much later. */
  delayMs?: number
  /** `before`: the request is read, then the connection is reset instead of an answer: a lost reply.
   *  `half`: reset after the status line and half of the body. `never`: no answer, the connection stays open.
   *  `garbage`: bytes that are not HTTP. */
  fault?: 'before' | 'half' | 'never' | 'garbage'
}

export type Responder = (delivery: SinkDelivery, index: number) => SinkAnswer | Promise<SinkAnswer>

export interface HttpSink {
  /** Base address without a path: `http://127.0.0.1:<port>`. */
  url: string
  port: number
  /** Every request, in the order they were wholly read; faulty answers included. */
  deliveries: SinkDelivery[]
  /** The records of all deliveries, parsed; NDJSON, arrays and single objects alike. */
  records(): Record<string, unknown>[]
  /** How requests are answered from now on; `index` counts from 0 over the sink's life. */
  respondWith(responder: Responder): void
  /** Open connections. */
  connections(): number
  /** Resets every connection and refuses new ones; `listen` takes the same port again. */
  halt(): Promise<void>
  listen(): Promise<void>
  stop(): Promise<void>
}

export interface SinkOptions {
  tls?: boolean
  host?: string
  /** Default: any free port. */
  port?: number
}

export async function startHttpSink({
  tls = false,
  host = '127.0.0.1',
  port: wantedPort = 0,
}: SinkOptions = {}): Promise<HttpSink> {
  const deliveries: SinkDelivery[] = []
  const sockets = new Map<Socket, number>()
  let connectionCount = 0
  let respond: Responder = () => ({})
  const handler = (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    request.on('error', () => {})
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', async () => {
      const delivery = toDelivery(request, Buffer.concat(chunks), sockets.get(request.socket) ?? 0)
      const index = deliveries.push(delivery) - 1
      answer(response, request.socket, await respond(delivery, index))
    })
  }
  const pair = tls ? selfSignedCertificate() : undefined
  const server = pair
    ? createTlsServer({ key: pair.key, cert: pair.certificate }, handler)
    : createServer(handler)
  server.keepAliveTimeout = 0
  server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    connectionCount += 1
    sockets.set(socket, connectionCount)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  let port = wantedPort
  const listen = () =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, () => {
        server.off('error', reject)
        port = (server.address() as AddressInfo).port
        resolve()
      })
    })
  const halt = async () => {
    if (!server.listening) return
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of sockets.keys()) resetSocket(socket)
    await closed
  }
  await listen()
  return {
    url: `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    deliveries,
    records: () => deliveries.flatMap(recordsOf),
    respondWith(responder) {
      respond = responder
    },
    connections: () => sockets.size,
    halt,
    listen,
    stop: halt,
  }
}

function toDelivery(request: IncomingMessage, body: Buffer, connection: number): SinkDelivery {
  const isGzip = request.headers['content-encoding'] === 'gzip'
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    headers: request.headers,
    body,
    text: (isGzip ? gunzipSync(body) : body).toString('utf8'),
    connection,
  }
}

function answer(response: ServerResponse, socket: Socket, given: SinkAnswer): void {
  const { status = 200, headers = {}, body = '', delayMs = 0, fault } = given
  const reply = () => {
    if (fault === 'never' || socket.destroyed) return
    if (fault === 'before') {
      // A TLS socket has no reset of its own here; ending it abruptly does the same to the peer.
      socket.destroy()
    } else if (fault === 'garbage') {
      socket.end('\u0000\u0001 this is not HTTP\r\n\r\n')
    } else if (fault === 'half') {
      response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) + 100 })
      response.write(body, () => socket.destroy())
    } else {
      response.writeHead(status, headers)
      response.end(body)
    }
  }
  if (delayMs > 0) setTimeout(reply, delayMs).unref()
  else reply()
}

function recordsOf(delivery: SinkDelivery): Record<string, unknown>[] {
  const text = delivery.text.trim()
  if (text === '') return []
  if (text.startsWith('[')) return JSON.parse(text)
  return text.split('\n').map((line) => JSON.parse(line))
}
