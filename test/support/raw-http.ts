/** HTTP as bytes, for requests that no client library would send. */
import net from 'node:net'
import { observe } from './coverage.ts'
import { resetSocket } from './reset-socket.ts'

export interface RawAnswer {
  /** 0 when the connection ended without a response. */
  status: number
  /** Lower-case names. */
  headers: Record<string, string>
  body: string
  /** True when the server closed the connection. */
  closed: boolean
}

export interface RawConnection {
  write(bytes: string | Buffer): void
  /** The next response with its whole body; responses are taken in the order they come. */
  answer(): Promise<RawAnswer>
  /** Resolves when the server has closed the connection. */
  closed: Promise<void>
  /** Stops reading at the first bytes of a response, and resolves then: the rest piles up on the server's side. */
  stall(): Promise<void>
  /** As a client that dies: RST. */
  reset(): void
}

/** `url`: `http://127.0.0.1:port`. */
export async function connectRaw(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url)
  const socket = net.connect(Number(port), hostname)
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  let received = Buffer.alloc(0)
  let isClosed = false
  let wake = () => {}
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk])
    wake()
  })
  // A reset is an end like another here; what was answered before it counts.
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => {
      isClosed = true
      wake()
      resolve()
    })
  })
  const answer = async (method: string): Promise<RawAnswer> => {
    for (;;) {
      const parsed = parseAnswer(received, method === 'HEAD')
      if (parsed !== null) {
        received = received.subarray(parsed.end)
        if (parsed.status === 100) continue
        const { status, headers, body } = parsed
        return { status, headers, body, closed: isClosed }
      }
      if (isClosed) return { status: 0, headers: {}, body: received.toString(), closed: true }
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  // The responses are recorded for the catalogue's check like those of any other client: by the request line sent before.
  const requests: [string, string][] = []
  return {
    write: (bytes) => {
      const line = /^([A-Z]+) (\/[^ ?]*)[^ ]* HTTP\/1\.1\r\n/.exec(bytes.toString())
      if (line !== null) requests.push([line[1]!, line[2]!])
      socket.write(bytes)
    },
    answer: async () => {
      const [method, path] = requests.shift() ?? ['-', '-']
      const found = await answer(method)
      if (found.status > 0) observe(method, path, found.status, errorOf(found.body))
      return found
    },
    closed,
    stall: () =>
      new Promise((resolve) => {
        socket.once('data', () => {
          socket.pause()
          resolve()
        })
      }),
    reset: () => resetSocket(socket),
  }
}

function errorOf(body: string): unknown {
  try {
    return JSON.parse(body).error
  } catch {
    return undefined
  }
}

/** One request, one response; says whether the server then closed the connection by itself. */
export async function sendRaw(url: string, request: string | Buffer): Promise<RawAnswer> {
  const connection = await connectRaw(url)
  connection.write(request)
  const answer = await connection.answer()
  const closed = await Promise.race([
    connection.closed.then(() => true),
    // It answers a second request on the same connection, unless it closed it.
    stillAnswers(connection).then((isAnswered) => !isAnswered),
  ])
  connection.reset()
  return { ...answer, closed }
}

async function stillAnswers(connection: RawConnection): Promise<boolean> {
  connection.write('GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n')
  return (await connection.answer()).status === 200
}

/** Whatever Content-Length says, the response to HEAD has no body. */
function parseAnswer(bytes: Buffer, isHead: boolean): (Omit<RawAnswer, 'closed'> & { end: number }) | null {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return null
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n')
  const status = Number(statusLine.split(' ')[1])
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  const start = headEnd + 4
  const length = isHead ? 0 : Number(headers['content-length'] ?? 0)
  if (bytes.length < start + length) return null
  return { status, headers, body: bytes.toString('utf8', start, start + length), end: start + length }
}
