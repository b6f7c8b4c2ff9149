/**
 * The tools of an attack: one workspace's key, a connection to the daemon, random numbers of its own and an end.
 *
 *   prepare ──▶ underWay() ──▶ continue until isOver ──▶ everything opened through the arena is closed
 *
 * The daemon may be killed at any moment: a request that gets no response has the status 0, and nothing here throws
 * because of it.
 */
import { setMaxListeners } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { connectRaw, type RawConnection } from '../raw-http.ts'
import {
  type Fault,
  type HonestSession,
  type RogueServer,
  seeded,
  startRogue,
} from '../rogue/rogue-server.ts'

/** One workspace of a daemon, as seen from outside. */
export interface Target {
  url: string
  dataUrl: string
  apiKey: string
  apiKeyId: string
}

export type Attack = (arena: Arena) => Promise<void>

export interface Response {
  /** 0: none. */
  status: number
  body: Record<string, unknown>
}

const nothing: Response = { status: 0, body: {} }

export class Arena {
  readonly target: Target
  /** A whole number below the one given; the same seed gives the same. */
  readonly random: (below: number) => number
  /** Responses by status, 0 for none. */
  readonly statuses: Record<number, number> = {}
  readonly #over = new AbortController()
  readonly #agent = new Agent({ connections: 64, bodyTimeout: 60_000, headersTimeout: 60_000 })
  readonly #closers: (() => unknown)[] = []
  readonly #underWay: () => void

  constructor(target: Target, seed: number, underWay: () => void) {
    this.target = target
    this.random = seeded(seed)
    this.#underWay = underWay
    // Every loop of an attack listens to it.
    setMaxListeners(0, this.#over.signal)
  }

  get isOver(): boolean {
    return this.#over.signal.aborted
  }

  /** The attack has begun to hurt: from now on its victims are looked at. */
  underWay(): void {
    this.#underWay()
  }

  /** Repeats the work in several loops at once until the attack is over. */
  async repeat(loops: number, work: () => Promise<unknown>): Promise<void> {
    const loop = async () => {
      while (!this.isOver) await work()
    }
    await Promise.all(Array.from({ length: loops }, loop))
  }

  async pause(ms: number): Promise<void> {
    await setTimeout(ms, undefined, { signal: this.#over.signal }).catch(() => {})
  }

  /** Waits until the condition holds or the attack is over. */
  async until(condition: () => boolean): Promise<void> {
    while (!this.isOver && !condition()) await this.pause(10)
  }

  async over(): Promise<void> {
    await this.until(() => false)
  }

  async send(
    method: string,
    path: string,
    body?: string | Buffer | object,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    if (this.isOver) return nothing
    const base = /^\/v1\/(ingest|pull)\//.test(path) ? this.target.dataUrl : this.target.url
    const isRaw = body === undefined || typeof body === 'string' || Buffer.isBuffer(body)
    let status = 0
    let text = ''
    try {
      const response = await request(`${base}${path}`, {
        method: method as 'GET',
        headers: {
          authorization: `Bearer ${this.target.apiKey}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        body: isRaw ? (body ?? null) : JSON.stringify(body),
        dispatcher: this.#agent,
        signal: this.#over.signal,
      })
      text = await response.body.text()
      status = response.statusCode
    } catch {
      // The daemon was killed, or it has cut the connection, or the attack is over.
      await this.pause(20)
    }
    this.note(status)
    return { status, body: text.startsWith('{') ? JSON.parse(text) : {} }
  }

  note(status: number): void {
    if (!this.isOver) this.statuses[status] = (this.statuses[status] ?? 0) + 1
  }

  ingest(pipeId: string, body: string | Buffer | object, headers: Record<string, string> = {}) {
    return this.send('POST', `/v1/ingest/${pipeId}`, body, headers)
  }

  /** Its id; an id of nothing where it could not be made. */
  async pipe(fields: Record<string, unknown> = {}): Promise<string> {
    const name = `attack-${this.random(2 ** 31)}`
    const { body } = await this.send('POST', '/v1/pipes', { pipe_name: name, ...fields })
    return String(body.pipe_id ?? unknownId)
  }

  async destination(pipeId: string, fields: object): Promise<string> {
    const { body } = await this.send('POST', `/v1/pipes/${pipeId}/destinations`, fields)
    return String(body.destination_id ?? unknownId)
  }

  /** Null when the daemon is not there. */
  async connect(url: string): Promise<RawConnection | null> {
    try {
      const connection = await connectRaw(url)
      this.onEnd(() => connection.reset())
      return connection
    } catch {
      await this.pause(20)
      return null
    }
  }

  /** See `startRogue`. */
  async rogue(session: () => HonestSession, step: number, fault: Fault, tls = false): Promise<RogueServer> {
    const rogue = await startRogue(session, step, fault, tls ? { tls, host: '127.0.0.2' } : {})
    this.onEnd(() => rogue.stop())
    return rogue
  }

  onEnd(close: () => unknown): void {
    this.#closers.push(close)
  }

  end(): void {
    this.#over.abort()
  }

  /** Ends the attack and closes whatever it opened. */
  async close(): Promise<void> {
    this.end()
    for (const closer of this.#closers) await closer()
    await this.#agent.destroy()
  }
}

/** An attack leaves its pipes and keys behind, and so does a daemon that was killed: the next one finds none. */
export async function clearWorkspace(target: Target): Promise<void> {
  const arena = new Arena(target, 0, () => {})
  const remove = async (list: string, id: string) => {
    const { body } = await arena.send('GET', `/v1/${list}`)
    const rows = (body[list.replace('-', '_')] ?? []) as Record<string, unknown>[]
    for (const row of rows)
      if (row[id] !== target.apiKeyId) await arena.send('DELETE', `/v1/${list}/${row[id]}`)
  }
  await remove('pipes', 'pipe_id')
  await remove('api-keys', 'api_key_id')
  await arena.close()
}

export const unknownId = '00000000-0000-4000-8000-000000000000'
