/**
 * The requests of readers to a stream, over one connection. Each is one request with a deadline, and every reason for
 * a missing response (no leader, no server, no response in time) is a BufferReadUnavailableError.
 *
 * The stream's leader serves requests on which a decision depends (`STREAM.MSG.GET`, JSON with the message in base64).
 * A message itself can come from any replica (`DIRECT.GET`, the plain message): replicas apply the stream in order, so
 * one that lags does not know the end but skips nothing.
 */
import { BufferReadUnavailableError } from '../../log/buffer.ts'
import { messageOf } from '../../platform/error-code.ts'
import { decodeHeaders, type MsgHdrs, type NatsConnection, type NatsMessage } from '../nats/headers.ts'

const requestTimeoutMs = 5_000

/** A message of a stream. `headers` are those of the message itself. */
export interface StreamMessage {
  streamSeq: number
  subject: string
  headers: MsgHdrs | undefined
  data: Uint8Array
  /** When the stream stored it, ms since the epoch; null when that was not requested. */
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

/** Where a consumer starts. */
export type ConsumerStart = { streamSeq: number } | { timeMs: number } | 'last_of_subjects'

export interface ConsumerPlan {
  filter: string
  start: ConsumerStart
  headersOnly: boolean
}

export class StreamClient {
  readonly nats: NatsConnection
  readonly stream: string
  /** With several replicas, the one that is asked can lag. */
  readonly #replicas: number

  constructor(nats: NatsConnection, stream: string, replicas: number) {
    this.nats = nats
    this.stream = stream
    this.#replicas = replicas
  }

  /** The first message of these subjects from this sequence on; null when the leader has none. */
  async next(filter: string, streamSeq: number): Promise<StreamMessage | null> {
    const query = { seq: Math.max(1, streamSeq), next_by_subj: filter }
    return (await this.#direct(query)) ?? (this.#replicas === 1 ? null : await this.#ofLeader(query))
  }

  /** The same when probably none exists: asks only the leader. */
  async nextOfLeader(filter: string, streamSeq: number): Promise<StreamMessage | null> {
    const query = { seq: Math.max(1, streamSeq), next_by_subj: filter }
    return this.#replicas === 1 ? await this.#direct(query) : await this.#ofLeader(query)
  }

  /** The last message of these subjects, according to the leader. */
  async last(filter: string): Promise<StreamMessage | null> {
    const query = { last_by_subj: filter }
    return this.#replicas === 1 ? await this.#direct(query) : await this.#ofLeader(query)
  }

  async state(): Promise<StreamState> {
    const { state } = await this.#info({})
    return { firstSeq: state.first_seq, lastSeq: state.last_seq, messages: state.messages }
  }

  /** Yields, in pages, every subject of the stream that matches the filter. */
  async *subjects(filter: string): AsyncGenerator<string[]> {
    for (let offset = 0; ; ) {
      const { state, total, limit } = await this.#info({ subjects_filter: filter, offset })
      const page = Object.keys(state.subjects ?? {})
      yield page
      offset += limit ?? page.length
      if (page.length === 0 || offset >= (total ?? 0)) return
    }
  }

  /** Creates a consumer in the memory of one server, which removes it after half a minute without requests. */
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

  /** Does not wait: the server removes a consumer that remains. */
  deleteConsumer(name: string): void {
    if (this.nats.isClosed()) return
    this.nats.publish(`$JS.API.CONSUMER.DELETE.${this.stream}.${name}`, '')
  }

  /** Not the inbox of any other client: of two with the same inbox, each would receive the messages of both. */
  newInbox(): string {
    inboxes += 1
    return `${inboxPrefix}.${inboxes}`
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
        `the stream ${this.stream} does not answer: ${messageOf(error)}`,
        error,
      )
    }
  }

  /** Error responses of the server are problems of the cluster too: no leader, no room, or the stream does not exist yet. */
  #check({ error }: ApiResponse): void {
    if (error === undefined) return
    throw new BufferReadUnavailableError(
      `the stream ${this.stream} answers: ${error.description ?? error.code}`,
    )
  }
}

const noMessageFound = 10037
const inboxPrefix = `_INBOX.${crypto.randomUUID().replaceAll('-', '')}`
/** The number of inboxes of all clients of this thread. */
let inboxes = 0

function startOf(start: ConsumerStart): object {
  if (start === 'last_of_subjects') return { deliver_policy: 'last_per_subject' }
  if ('timeMs' in start)
    return { deliver_policy: 'by_start_time', opt_start_time: new Date(start.timeMs).toISOString() }
  return { deliver_policy: 'by_start_sequence', opt_start_seq: Math.max(1, start.streamSeq) }
}
