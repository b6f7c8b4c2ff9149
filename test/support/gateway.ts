/** A gateway in front of a daemon: a real HTTP server that passes requests on, and responds to chosen ones itself. */
import { createServer, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Gateway {
  url: string
  /** Responds to the next requests whose path contains `part`, this many times. */
  respondTo(part: string, status: number, times: number, headers?: Record<string, string>): void
  /** The number of requests that it has responded to itself. */
  responded(): number
  /** Ends the open responses. */
  cut(): void
  /** Called with the path of a request before the daemon's response to it is passed on. */
  onResponse: (path: string) => void
  stop(): Promise<void>
}

export async function startGateway(daemonUrl: string): Promise<Gateway> {
  let chosen = { part: '', status: 0, times: 0, headers: {} }
  let responded = 0
  const open = new Set<ServerResponse>()
  const server = createServer((incoming, outgoing) => {
    const { url = '/', method, headers } = incoming
    if (chosen.times > 0 && url.includes(chosen.part)) {
      chosen.times -= 1
      responded += 1
      const body = JSON.stringify({ error: 'from_the_gateway', message: 'not passed on' })
      outgoing.writeHead(chosen.status, { 'content-type': 'application/json', ...chosen.headers }).end(body)
      return
    }
    open.add(outgoing)
    const upstream = request(new URL(url, daemonUrl), { method, headers }, (response) => {
      gateway.onResponse(url)
      outgoing.writeHead(response.statusCode ?? 502, response.headers)
      response.on('error', () => outgoing.destroy()).pipe(outgoing)
    })
    upstream.on('error', () => outgoing.destroy())
    outgoing.on('close', () => {
      open.delete(outgoing)
      upstream.destroy()
    })
    incoming.pipe(upstream)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const one of open) one.destroy()
  }
  const gateway: Gateway = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    respondTo(part, status, times, headers = {}) {
      chosen = { part, status, times, headers }
    },
    responded: () => responded,
    cut,
    onResponse: () => {},
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
  return gateway
}
