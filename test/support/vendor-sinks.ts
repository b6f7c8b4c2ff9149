/**
 * Servers that take what the HTTP recipes send, written after the public rules of each API, and that refuse what those refuse.
 * Far from the real thing: one index, one table, one stream, in memory.
 */
import { type HttpSink, type SinkAnswer, type SinkDelivery, startHttpSink } from './http-sink.ts'

const json = (status: number, body: unknown): SinkAnswer => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})
const plain = (status: number, body: string, headers: Record<string, string> = {}): SinkAnswer => ({
  status,
  headers: { 'content-type': 'text/plain', ...headers },
  body,
})

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export interface IndexSink {
  sink: HttpSink
  /** Id → document, as text. */
  documents: Map<string, string>
  /** The records with these `n` are taken later: 429. */
  busy: Set<number>
}

/** Elasticsearch and OpenSearch: POST /events/_bulk. `n` is mapped as a number. */
export async function startIndexSink(authorization: string): Promise<IndexSink> {
  const sink = await startHttpSink()
  const documents = new Map<string, string>()
  const busy = new Set<number>()
  const failure = (type: string, reason: string, status: number) =>
    json(status, { error: { type, reason }, status })
  sink.respondWith(({ method, path, headers, text }) => {
    if (headers.authorization !== authorization)
      return failure('security_exception', 'missing credentials', 401)
    if (method === 'HEAD') return { status: 200 }
    if (path !== '/events/_bulk' || method !== 'POST')
      return failure('illegal_argument_exception', 'no handler', 400)
    if (!/^application\/(x-ndjson|json)/.test(headers['content-type'] ?? ''))
      return failure('media_type_header_exception', 'Content-Type is not supported', 406)
    if (!text.endsWith('\n'))
      return failure(
        'illegal_argument_exception',
        'The bulk request must be terminated by a newline [\\n]',
        400,
      )
    const lines = text.slice(0, -1).split('\n')
    const items: object[] = []
    for (let at = 0; at < lines.length; at += 2) {
      const action = parsed(lines[at] ?? '')
      const create = isObject(action) && Object.keys(action).length === 1 ? action.create : undefined
      if (!isObject(create) || typeof create._id !== 'string' || create._id.length > 512)
        return failure('illegal_argument_exception', `Malformed action/metadata line [${at + 1}]`, 400)
      items.push({ create: { _index: 'events', _id: create._id, ...outcome(create._id, lines[at + 1]) } })
    }
    const errors = items.some((item) => JSON.stringify(item).includes('"error"'))
    return json(200, { took: 1, errors, items })
  })
  return { sink, documents, busy }

  function outcome(id: string, document: string | undefined): object {
    const record = parsed(document ?? '')
    const refusal = (status: number, type: string, reason: string) => ({ status, error: { type, reason } })
    if (document === undefined || !isObject(record))
      return refusal(400, 'document_parsing_exception', 'not an object')
    if (record.n !== undefined && !Number.isFinite(Number(record.n)))
      return refusal(400, 'document_parsing_exception', 'failed to parse field [n] of type [long]')
    if (busy.has(Number(record.n)))
      return refusal(429, 'es_rejected_execution_exception', 'the queue is full')
    if (documents.has(id)) return refusal(409, 'version_conflict_engine_exception', 'document already exists')
    documents.set(id, document)
    return { status: 201, result: 'created' }
  }
}

export interface TableSink {
  sink: HttpSink
  rows: Record<string, unknown>[]
}

/** ClickHouse: a table `events` of the columns `id` and `price`, written to with JSONEachRow. */
export async function startClickHouseSink(user: string, key: string): Promise<TableSink> {
  const sink = await startHttpSink()
  const rows: Record<string, unknown>[] = []
  sink.respondWith(({ method, path, headers, text }) => {
    if (headers['x-clickhouse-user'] !== user || headers['x-clickhouse-key'] !== key)
      return plain(403, 'Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)')
    if (method === 'HEAD') return { status: 200 }
    const { searchParams } = new URL(path, sink.url)
    if (!/^INSERT INTO events FORMAT JSONEachRow$/i.test(searchParams.get('query') ?? ''))
      return plain(400, 'Code: 62. DB::Exception: Syntax error. (SYNTAX_ERROR)')
    const skips = searchParams.get('input_format_skip_unknown_fields') === '1'
    const found = text.trimEnd().split('\n').map(parsed)
    for (const row of found) {
      if (!isObject(row))
        return plain(
          400,
          'Code: 27. DB::Exception: Cannot parse input. (CANNOT_PARSE_INPUT_ASSERTION_FAILED)',
        )
      const unknown = Object.keys(row).find((name) => !['id', 'price'].includes(name))
      if (unknown !== undefined && !skips)
        return plain(
          400,
          `Code: 117. DB::Exception: Unknown field found while parsing JSONEachRow format: ${unknown}. (INCORRECT_DATA)`,
        )
      if (!Number.isInteger(Number(row.id)))
        return plain(400, 'Code: 27. DB::Exception: Cannot parse id. (CANNOT_PARSE_INPUT_ASSERTION_FAILED)')
    }
    rows.push(...found.filter(isObject))
    return { status: 200 }
  })
  return { sink, rows }
}

export interface LogSink {
  sink: HttpSink
  /** Labels, as JSON → entries, each once. */
  streams: Map<string, Map<string, string>>
}

/** Grafana Loki: POST /loki/api/v1/push of a tenant. */
export async function startLokiSink(tenant: string): Promise<LogSink> {
  const sink = await startHttpSink()
  const streams: LogSink['streams'] = new Map()
  sink.respondWith((delivery) => {
    if (delivery.headers['x-scope-orgid'] !== tenant) return plain(401, 'no org id')
    if (delivery.method === 'HEAD') return { status: 200 }
    if (delivery.path !== '/loki/api/v1/push') return plain(404, 'page not found')
    if (delivery.headers['content-type'] !== 'application/json') return plain(400, 'unsupported content type')
    const fault = faultOf(parsed(delivery.text))
    if (fault !== null) return plain(400, fault)
    for (const { stream, values } of JSON.parse(delivery.text).streams) {
      const entries = streams.get(JSON.stringify(stream)) ?? new Map<string, string>()
      streams.set(JSON.stringify(stream), entries)
      for (const [time, line] of values) entries.set(`${time} ${line}`, line)
    }
    return { status: 204 }
  })
  return { sink, streams }

  function faultOf(body: unknown): string | null {
    if (!isObject(body) || !Array.isArray(body.streams)) return 'loghttp.PushRequest: streams is missing'
    for (const one of body.streams) {
      const { stream, values } = isObject(one) ? one : {}
      if (!isObject(stream) || Object.keys(stream).length === 0)
        return 'error at least one label pair is required per stream'
      for (const [name, value] of Object.entries(stream))
        if (!/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) || typeof value !== 'string')
          return `invalid label ${name}`
      if (!Array.isArray(values)) return 'values is missing'
      for (const entry of values) {
        const [time, line] = Array.isArray(entry) ? entry : []
        if (typeof time !== 'string' || typeof line !== 'string') return 'an entry is two strings'
        if (!/^\d{19}$/.test(time)) return 'timestamp is not nanoseconds'
        if (Number(time) / 1e6 > Date.now() + 600_000) return 'timestamp too new'
      }
    }
    return null
  }
}

export interface ChatSink {
  sink: HttpSink
  messages: string[]
  /** So many messages are answered 429 first. */
  limitNext(count: number): void
}

const webhookPath = '/services/T000/B000/secretword'

/** An incoming webhook of Slack. */
export async function startSlackSink(): Promise<ChatSink & { url: string }> {
  const sink = await startHttpSink()
  const messages: string[] = []
  let limited = 0
  sink.respondWith((delivery: SinkDelivery) => {
    if (delivery.path !== webhookPath) return plain(404, 'no_team')
    if (delivery.method === 'HEAD') return plain(400, 'invalid_payload')
    if (limited > 0) {
      limited -= 1
      return plain(429, 'rate_limited', { 'retry-after': '1' })
    }
    const body = parsed(delivery.text)
    if (delivery.headers['content-type'] !== 'application/json' || !isObject(body))
      return plain(400, 'invalid_payload')
    if (typeof body.text !== 'string' || body.text.trim() === '') return plain(400, 'no_text')
    messages.push(body.text)
    return plain(200, 'ok')
  })
  const limitNext = (count: number) => {
    limited = count
  }
  return { sink, messages, limitNext, url: `${sink.url}${webhookPath}` }
}
