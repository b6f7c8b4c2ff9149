/**
 * Requests at a constant rate, as clients send them that do not wait for each other. A response time counts from when the
 * request was due: one that had to wait because every connection was busy has waited for the server all the same (wrk, which
 * sends the next request after a response, leaves that out).
 */
import { once } from 'node:events'
import net from 'node:net'
import type { LoadOptions, LoadResult } from './load.ts'
import { quantile } from './quantile.ts'

const everyMs = 1

/** `rate`: requests a second, over all connections. */
export async function pacedLoad(options: LoadOptions & { rate: number }): Promise<LoadResult> {
  const { url, headers, bodies, connections, rate, seconds } = options
  const { host, hostname, port, pathname } = new URL(url)
  const requests = bodies.map((body) => requestOf(pathname, { Host: host, ...headers }, body))
  const times: number[] = []
  const due: number[] = []
  let failed = 0
  let sent = 0
  const idle: PacedConnection[] = []
  const takeOn = (connection: PacedConnection) => {
    const dueAt = due[sent]
    if (dueAt === undefined) idle.push(connection)
    else connection.send(requests[sent++ % requests.length]!, dueAt)
  }
  const done = (connection: PacedConnection, dueAt: number, isAccepted: boolean) => {
    times.push(performance.now() - dueAt)
    if (!isAccepted) failed++
    takeOn(connection)
  }
  const all = await Promise.all(
    Array.from({ length: connections }, () => PacedConnection.open(hostname, Number(port), done)),
  )
  idle.push(...all)
  const startedAt = performance.now()
  let planned = 0
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const now = performance.now()
      while (planned < ((now - startedAt) / 1000) * rate && planned < rate * seconds) {
        due.push(startedAt + (planned++ / rate) * 1000)
        const connection = idle.pop()
        if (connection !== undefined) takeOn(connection)
      }
      if (now - startedAt < seconds * 1000) return
      clearInterval(timer)
      resolve()
    }, everyMs)
  })
  const answered = times.length
  for (const connection of all) connection.close()
  // A request that was due and has had no response waits at least until now.
  const now = performance.now()
  for (const dueAt of due.slice(sent)) times.push(now - dueAt)
  return {
    generator: 'paced',
    requestsPerSecond: answered / ((now - startedAt) / 1000),
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    failed,
  }
}

type OnDone = (connection: PacedConnection, dueAt: number, isAccepted: boolean) => void

/** One request at a time. */
class PacedConnection {
  readonly #socket: net.Socket
  readonly #onDone: OnDone
  #dueAt: number | null = null
  /** The response, as far as it has arrived, if it came in parts. */
  #received = ''

  private constructor(port: number, host: string, onDone: OnDone) {
    this.#onDone = onDone
    // One buffer for all responses: with a stream of new ones, the generator would take more CPU than the daemon.
    const buffer = Buffer.alloc(16 * 1024)
    const callback = (length: number) => {
      this.#take(buffer.toString('latin1', 0, length))
      return true
    }
    this.#socket = net.connect({ port, host, noDelay: true, onread: { buffer, callback } })
    this.#socket.on('error', () => {})
    this.#socket.on('close', () => this.#end(false))
  }

  static async open(host: string, port: number, onDone: OnDone): Promise<PacedConnection> {
    const connection = new PacedConnection(port, host, onDone)
    await once(connection.#socket, 'connect')
    return connection
  }

  send(request: Buffer, dueAt: number): void {
    this.#dueAt = dueAt
    this.#received = ''
    this.#socket.write(request)
  }

  close(): void {
    this.#dueAt = null
    this.#socket.destroy()
  }

  #take(text: string): void {
    const response = this.#received === '' ? text : this.#received + text
    if (isWhole(response)) this.#end(response.startsWith('HTTP/1.1 202'))
    else this.#received = response
  }

  #end(isAccepted: boolean): void {
    const dueAt = this.#dueAt
    if (dueAt === null) return
    this.#dueAt = null
    this.#onDone(this, dueAt, isAccepted)
  }
}

function isWhole(response: string): boolean {
  const headEnd = response.indexOf('\r\n\r\n')
  if (headEnd < 0) return false
  const length = Number(/content-length: (\d+)/i.exec(response)?.[1] ?? 0)
  return response.length >= headEnd + 4 + length
}

function requestOf(path: string, headers: Record<string, string>, body: string): Buffer {
  const bytes = Buffer.from(body)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `POST ${path} HTTP/1.1\r\n${lines.join('')}Content-Length: ${bytes.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), bytes])
}
