/**
 * A pipe of a real daemon behind a proxy that mistreats requests, for tests of senders. A pull lane counts the records
 * that arrived.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { request } from 'undici'
import type { TestDaemon } from './daemon.ts'

/**
 * The outcome of a request. `cut`: the daemon never gets it, and the connection ends. `lost`: it is stored, and the
 * connection ends. `silent`: it is stored, and no response comes. `busy` and `limited`: 503 and 429 with Retry-After.
 * `too_large`: 413 of a proxy.
 */
export type Fate = 'forwarded' | 'cut' | 'lost' | 'silent' | 'busy' | 'limited' | 'too_large'

export interface Attempt {
  fate: Fate
  key: string
  headers: IncomingHttpHeaders
  /** Decompressed. */
  body: string
  at: number
}

export interface FaultyPipe {
  pipeId: string
  /** For the sender: the ingest URL through the proxy, and a key. */
  env: Record<string, string>
  attempts: Attempt[]
  /** Decides the fate of each request from now on. */
  decide: (attempt: Omit<Attempt, 'fate'>, index: number) => Fate
  /** The records that have arrived since the last call, as the daemon delivers them. */
  arrived(): Promise<Record<string, unknown>[]>
  close(): void
}

let made = 0

export async function openFaultyPipe(daemon: TestDaemon): Promise<FaultyPipe> {
  const name = `sender${made++}`
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const app = await daemon.api<{ api_key: string }>('POST', '/v1/api-keys', {
    ...{ api_key_name: name, api_key_scopes: ['ingest'], api_key_pipe_ids: [pipeId] },
  })
  const server = createServer(async (incoming, response) => {
    const pieces: Buffer[] = []
    try {
      for await (const piece of incoming) pieces.push(piece)
    } catch {
      // The sender was killed in the middle of its request.
      return
    }
    await pass(Buffer.concat(pieces), incoming.headers, response)
  })
  const pass = async (sent: Buffer, headers: IncomingHttpHeaders, response: ServerResponse) => {
    const body = headers['content-encoding'] === 'gzip' ? gunzipSync(sent).toString() : sent.toString()
    const known = { key: String(headers['idempotency-key']), headers, body, at: Date.now() }
    const fate = pipe.decide(known, pipe.attempts.length)
    pipe.attempts.push({ ...known, fate })
    if (fate === 'cut') response.destroy()
    else if (fate === 'busy') response.writeHead(503, { 'Retry-After': '1' }).end('Service Unavailable')
    else if (fate === 'limited')
      response.writeHead(429, { 'Retry-After': '1' }).end('{"error":"rate_limit_exceeded","message":"later"}')
    else if (fate === 'too_large') response.writeHead(413).end('<html>413</html>')
    else await forward(sent, headers, { response, fate })
  }
  const forward = async (
    sent: Buffer,
    { host, connection, 'content-length': _length, ...headers }: IncomingHttpHeaders,
    { response, fate }: { response: ServerResponse; fate: Fate },
  ) => {
    const answer = await request(`${daemon.dataUrl}/v1/ingest/${pipeId}`, {
      method: 'POST',
      headers: headers as Record<string, string>,
      body: sent,
    })
    const text = await answer.body.text()
    const { 'retry-after': retryAfter } = answer.headers
    if (fate === 'lost') response.destroy()
    else if (fate === 'forwarded')
      response
        .writeHead(answer.statusCode, {
          'Content-Type': 'application/json',
          ...(retryAfter === undefined ? {} : { 'Retry-After': String(retryAfter) }),
        })
        .end(text)
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  // A test that fails before it closes the pipe ends nevertheless.
  server.unref()
  const { port } = server.address() as AddressInfo
  const pipe: FaultyPipe = {
    pipeId,
    env: {
      PIPECTL_INGEST_URL: `http://127.0.0.1:${port}/v1/ingest/${pipeId}`,
      PIPECTL_API_KEY: app.body.api_key,
    },
    attempts: [],
    decide: () => 'forwarded',
    arrived: async () => {
      const records: Record<string, unknown>[] = []
      for (;;) {
        const { status, body } = await daemon.api<{ records: Record<string, unknown>[] }>(
          'GET',
          `/v1/pull/${lane}?wait_ms=0`,
        )
        if (status !== 200) return records
        records.push(...body.records)
      }
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
  return pipe
}

/** The fates in this order, and then `forwarded`. */
export function inTurn(fates: readonly Fate[]): FaultyPipe['decide'] {
  return (_, index) => fates[index] ?? 'forwarded'
}
