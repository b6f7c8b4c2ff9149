/**
 * The requests of readers to a stream, over one connection. Each is one request with a deadline, and every reason for
 * a missing response (no leader, no server, no response in time) is a BufferReadUnavailableError.
 *
 * The stream's leader serves requests that decide something (`STREAM.MSG.GET`, JSON with the message in base64). A
 * message itself may come from any replica (`DIRECT.GET`, the message as it is): replicas apply the stream in order,
 * so one that lags does not know the end, but skips nothing.
 */
import { BufferReadUnavailableError } from '../../log/buffer.ts'
import { decodeHeaders, type MsgHdrs, type NatsConnection, type NatsMessage } from '../nats/headers.ts'

const requestTimeoutMs = 5_000

/** A message of a stream. `headers` is of the message alone. */
export interface StreamMessage {
  streamSeq: number
  subject: string
  headers: MsgHdrs | undefined
  data: Uint8Array
  /** When the stream took it, ms since the epoch; null: it was not asked for. */
  storedMs: number | null
}

export interface StreamState {
  firstSeq: number
  lastSeq: number
  messages: number
}

interface ApiResponse {
  error?: { code: number; err_code?: number; description?: string }
}

interface MessageResponse extends ApiResponse {
  message?: { subject: string; seq: number; time: string; hdrs?: string; data?: string }
}

interface InfoResponse extends ApiResponse {
  state?: { first_seq: number; last_seq: number; messages: number; subjects?: Record<string, number> }
  total?: number
  limit?: number
}

/** Where a consumer begins. */
export type ConsumerStart = { streamSeq: number } | { timeMs: number } | 'last_of_subjects'

export interface ConsumerPlan {
  filter: string
  start: ConsumerStart
  headersOnly: boolean
}

export class StreamClient {
  readonly nats: NatsConnection
  readonly stream: string
  /** With more than one, a replica that is asked may lag. */
  readonly #replicas: number
  #inboxes = 0

  constructor(nats: NatsConnection, stream: string, replicas: number) {
    this.nats = nats
    this.stream = stream
    this.#replicas = replicas
  }

  /** The first message of these subjects from this sequence on; null: the leader has none. */
  async next(filter: string, streamSeq: number): Promise<StreamMessage | null> {
    const query = { seq: Math.max(1, streamSeq), next_by_subj: filter }
    return (await this.#direct(query)) ?? (this.#replicas === 1 ? null : await this.#ofLeader(query))
  }

  /** The same where none is expected: the leader alone is asked. */
  async nextOfLeader(filter: string, streamSeq: number): Promise<StreamMessage | null> {
    const query = { seq: Math.max(1, streamSeq), next_by_subj: filter }
    return this.#replicas === 1 ? await this.#direct(query) : await this.#ofLeader(query)
  }

  /** The last message of these subjects, as the leader knows it. */
  async last(filter: string): Promise<StreamMessage | null> {
    const query = { last_by_subj: filter }
    return this.#replicas === 1 ? await this.#direct(query) : await this.#ofLeader(query)
  }

  async state(): Promise<StreamState> {
    const { state } = await this.#info({})
    return { firstSeq: state.first_seq, lastSeq: state.last_seq, messages: state.messages }
  }

  /** Every subject of the stream that this one matches, page by page. */
  async *subjects(filter: string): AsyncGenerator<string[]> {
    for (let offset = 0; ; ) {
      const { state, total, limit } = await this.#info({ subjects_filter: filter, offset })
      const page = Object.keys(state.subjects ?? {})
      yield page
      offset += limit ?? page.length
      if (page.length === 0 || offset >= (total ?? 0)) return
    }
  }

  /** A consumer that is kept in the memory of one server, and forgotten there once nobody asks it for half a minute. */
  async createConsumer({
    filter,
    start,
    headersOnly,
  }: ConsumerPlan): Promise<{ name: string; pending: number }> {
    const config = {
      ...startOf(start),
      filter_subject: filter,
      headers_only: headersOnly,
      ack_policy: 'none',
      max_deliver: 1,
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: 30e9,
    }
    const request = { stream_name: this.stream, config }
    const created = await this.#ask<ApiResponse & { name?: string; num_pending?: number }>(
      `$JS.API.CONSUMER.CREATE.${this.stream}`,
      request,
    )
    this.#check(created)
    if (created.name === undefined) throw new BufferReadUnavailableError('the consumer has no name')
    return { name: created.name, pending: created.num_pending ?? 0 }
  }

  /** Not waited for: a consumer that stays is forgotten by the server. */
  deleteConsumer(name: string): void {
    if (this.nats.isClosed()) return
    this.nats.publish(`$JS.API.CONSUMER.DELETE.${this.stream}.${name}`, '')
  }

  newInbox(): string {
    this.#inboxes += 1
    return `${inboxPrefix}.${this.stream}.${this.#inboxes}`
  }

  async #direct(query: object): Promise<StreamMessage | null> {
    const answer = await this.#request(`$JS.API.DIRECT.GET.${this.stream}`, query)
    const { headers } = answer
    if (headers === undefined)
      throw new BufferReadUnavailableError('a message of the stream came without headers')
    if (headers.code === 404) return null
    if (headers.code >= 300)
      throw new BufferReadUnavailableError(`the stream answers ${headers.code} ${headers.description}`)
    const streamSeq = Number(headers.get('Nats-Sequence'))
    const storedMs = Date.parse(headers.get('Nats-Time-Stamp'))
    return { streamSeq, subject: headers.get('Nats-Subject'), headers, data: answer.data, storedMs }
  }

  async #ofLeader(query: object): Promise<StreamMessage | null> {
    const answer = await this.#ask<MessageResponse>(`$JS.API.STREAM.MSG.GET.${this.stream}`, query)
    if (answer.error?.code === 404 && answer.error.err_code === noMessageFound) return null
    this.#check(answer)
    const { message } = answer
    if (message === undefined) throw new BufferReadUnavailableError('the stream answers without a message')
    return {
      streamSeq: message.seq,
      subject: message.subject,
      headers: message.hdrs === undefined ? undefined : decodeHeaders(Buffer.from(message.hdrs, 'base64')),
      data: Buffer.from(message.data ?? '', 'base64'),
      storedMs: Date.parse(message.time),
    }
  }

  async #info(query: object): Promise<InfoResponse & { state: NonNullable<InfoResponse['state']> }> {
    const info = await this.#ask<InfoResponse>(`$JS.API.STREAM.INFO.${this.stream}`, query)
    this.#check(info)
    if (info.state === undefined) throw new BufferReadUnavailableError('the stream answers without its state')
    return { ...info, state: info.state }
  }

  async #ask<T extends ApiResponse>(subject: string, query: object): Promise<T> {
    const answer = await this.#request(subject, query)
    try {
      return answer.json() as T
    } catch (error) {
      throw new BufferReadUnavailableError('the stream answers something that is not JSON', error)
    }
  }

  async #request(subject: string, query: object): Promise<NatsMessage> {
    try {
      return await this.nats.request(subject, JSON.stringify(query), { timeout: requestTimeoutMs })
    } catch (error) {
      throw new BufferReadUnavailableError(
        `the stream ${this.stream} does not answer: ${reasonOf(error)}`,
        error,
      )
    }
  }

  /** An error that the server answers is one of the cluster, too: no leader, no room, the stream not there yet. */
  #check({ error }: ApiResponse): void {
    if (error === undefined) return
    throw new BufferReadUnavailableError(
      `the stream ${this.stream} answers: ${error.description ?? error.code}`,
    )
  }
}

const noMessageFound = 10037
const inboxPrefix = `_INBOX.${crypto.randomUUID().replaceAll('-', '')}`

function startOf(start: ConsumerStart): object {
  if (start === 'last_of_subjects') return { deliver_policy: 'last_per_subject' }
  if ('timeMs' in start)
    return { deliver_policy: 'by_start_time', opt_start_time: new Date(start.timeMs).toISOString() }
  return { deliver_policy: 'by_start_sequence', opt_start_seq: Math.max(1, start.streamSeq) }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
