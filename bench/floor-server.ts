/**
 * The upper limit of the machine, in a process of its own: a server that parses a JSON body, keeps nothing and sends
 * a 202. BENCH_FLOOR selects it: raw uWebSockets, or node:http.
 */

import http from 'node:http'
import { createRequire } from 'node:module'

interface UwsResponse {
  onAborted(handler: () => void): void
  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): void
  cork(work: () => void): void
  writeStatus(status: string): UwsResponse
  writeHeader(name: string, value: string): UwsResponse
  end(body: Buffer): void
}
interface Uws {
  App(): {
    post(pattern: string, handler: (response: UwsResponse) => void): void
    listen(host: string, port: number, listening: (socket: unknown) => void): void
  }
  us_socket_local_port(socket: unknown): number
}

// The vendored loader has no types; these are the parts used here.
const uws: Uws = createRequire(import.meta.url)('uWebSockets.js')
const reply = Buffer.from('{"message":"Accepted."}')

function serveUws(): void {
  const app = uws.App()
  app.post('/*', (response) => {
    let body = Buffer.alloc(0)
    response.onAborted(() => {})
    response.onData((chunk, isLast) => {
      // The chunk is only valid in this call: concat copies it.
      body = Buffer.concat([body, Buffer.from(chunk)])
      if (!isLast) return
      JSON.parse(body.toString('utf8'))
      response.cork(() => {
        response.writeStatus('202 Accepted').writeHeader('Content-Type', 'application/json').end(reply)
      })
    })
  })
  app.listen('127.0.0.1', 0, (socket) => {
    if (socket) process.send?.(uws.us_socket_local_port(socket))
  })
}

function serveNode(): void {
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      JSON.parse(Buffer.concat(chunks).toString('utf8'))
      response
        .writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': reply.length })
        .end(reply)
    })
  })
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    if (address !== null && typeof address === 'object') process.send?.(address.port)
  })
}

if (process.env.BENCH_FLOOR === 'uws') serveUws()
else serveNode()
