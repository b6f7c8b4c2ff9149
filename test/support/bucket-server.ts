/**
 * An object store for tests of the replica: an S3 server with conditional creation, ranges, listings in pages, uploads in
 * parts, and signatures that are verified. A test makes it fail one request at a time, or behave like a store that lacks
 * something, and it counts requests by kind. Objects are in memory.
 */
import { createHash, randomUUID } from 'node:crypto'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type Account, signatureProblem } from './s3.ts'

export type BucketRequestKind =
  | 'create'
  | 'put'
  | 'get'
  | 'list'
  | 'delete'
  | 'begin_upload'
  | 'part'
  | 'complete_upload'
  | 'abort_upload'

export type BucketFault =
  /** Responds with an error and does nothing. */
  | { status: number; code: string; headers?: Record<string, string> }
  /** Does it, then drops the connection without a response. */
  | 'lost_response'
  /** Reads half of the body of the request, then drops the connection. */
  | 'cut_upload'
  /** Sends half of the body of the response, then drops the connection. */
  | 'cut_download'
  /** Does it and responds, once `recover` is called. */
  | 'hold'
  /** Reads the request and never responds. */
  | 'hang'
  /** Sends half of the body of the response, then nothing more. */
  | 'stalled_download'

export interface FaultRule {
  kind?: BucketRequestKind
  /** The name of the object, or the prefix of a listing, begins with this. */
  below?: string
  /** The number of requests that fail. Default: 1. */
  times?: number
  /** The number of matching requests that succeed first. */
  after?: number
  fault: BucketFault
}

export interface StoredObject {
  body: Buffer
  modifiedMs: number
  headers: IncomingMessage['headers']
}

/** What a store lacks. A test sets these at any time. */
export interface StoreBehaviour {
  /**
   * `ignored`: a conditional creation replaces the object. `rejected`: 501. `racy`: creations at the same time do not see each
   * other.
   */
  conditions: 'supported' | 'ignored' | 'rejected' | 'racy'
  /** How much the store's clock is ahead. Requests that differ by more than 15 minutes are rejected. */
  clockAheadMs: number
  /** The most names in one page of a listing. */
  pageSize: number
  /** Listings are not in the order of names. */
  listsUnordered: boolean
  ignoresRanges: boolean
  /** An object is listed only when it is this old. */
  listsAfterMs: number
  /** The last part of an upload is lost. */
  losesParts: boolean
  /** The parts of an upload can be read before it is complete. */
  showsParts: boolean
  /** Each request takes this long. */
  latencyMs: number
}

export interface BucketServer {
  endpoint: string
  account: Account
  objects: Map<string, StoredObject>
  /** Uploads that are neither complete nor aborted. */
  openUploads(): number
  counts: Record<BucketRequestKind, number>
  /** Requests that are held until `recover`. */
  held(): number
  behaviour: StoreBehaviour
  /** Rules apply in their order, one for each request. */
  fail(...rules: FaultRule[]): void
  /** Forgets rules that have not been used up, ends requests that hang, and continues those that are held. */
  recover(): void
  stop(): Promise<void>
}

export interface BucketServerOptions {
  account?: Partial<Account>
  /** PEM, for HTTPS. */
  tls?: { key: string; certificate: string }
  port?: number
}

export async function startBucketServer({
  account,
  tls,
  port = 0,
}: BucketServerOptions = {}): Promise<BucketServer> {
  const store = new MemoryStore({
    bucket: 'replica',
    region: 'eu-west-1',
    accessKey: 'AKIDREPLICA',
    secretKey: 'secret/of+the=replica',
    ...account,
  })
  const listener = (request: IncomingMessage, response: ServerResponse) =>
    void store.handle(request, response).catch(() => response.destroy())
  const server =
    tls === undefined
      ? createHttpServer(listener)
      : createHttpsServer({ key: tls.key, cert: tls.certificate }, listener)
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return {
    endpoint: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${address.port}`,
    account: store.account,
    objects: store.objects,
    openUploads: () => store.uploads.size,
    counts: store.counts,
    held: () => store.held.length,
    behaviour: store.behaviour,
    fail: (...rules) => void store.rules.push(...rules.map((rule) => ({ times: 1, after: 0, ...rule }))),
    recover: () => store.recover(),
    async stop() {
      store.recover()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

interface Upload {
  key: string
  headers: IncomingMessage['headers']
  parts: Map<number, Buffer>
}

interface Asked {
  kind: BucketRequestKind
  key: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: Buffer
  /** There was such an object when the request arrived. */
  isKnown: boolean
}

interface Reply {
  status: number
  headers?: Record<string, string>
  body?: Buffer | string
}

type Rule = FaultRule & { times: number; after: number }

const maxSkewMs = 15 * 60_000

class MemoryStore {
  readonly account: Account
  readonly objects = new Map<string, StoredObject>()
  readonly uploads = new Map<string, Upload>()
  readonly rules: Rule[] = []
  readonly counts: Record<BucketRequestKind, number> = {
    create: 0,
    put: 0,
    get: 0,
    list: 0,
    delete: 0,
    begin_upload: 0,
    part: 0,
    complete_upload: 0,
    abort_upload: 0,
  }
  readonly behaviour: StoreBehaviour = {
    conditions: 'supported',
    clockAheadMs: 0,
    pageSize: 1_000,
    listsUnordered: false,
    ignoresRanges: false,
    listsAfterMs: 0,
    losesParts: false,
    showsParts: false,
    latencyMs: 0,
  }
  readonly #hanging = new Set<ServerResponse>()
  readonly held: (() => void)[] = []

  constructor(account: Account) {
    this.account = account
  }

  recover(): void {
    this.rules.length = 0
    for (const response of this.#hanging) response.destroy()
    this.#hanging.clear()
    for (const release of this.held.splice(0)) release()
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://store')
    const [, bucket = '', ...rest] = url.pathname.split('/')
    const key = decodeURIComponent(rest.join('/'))
    const kind = kindOf(request, url.searchParams)
    this.counts[kind] += 1
    const fault = this.#faultOf(kind, kind === 'list' ? (url.searchParams.get('prefix') ?? '') : key)
    if (fault === 'cut_upload') return await cutAfterHalf(request)
    const body = await bodyOf(request)
    const isKnown = this.objects.has(key)
    if (this.behaviour.conditions === 'racy') await new Promise((resolve) => setTimeout(resolve, 20))
    if (this.behaviour.latencyMs > 0)
      await new Promise((resolve) => setTimeout(resolve, this.behaviour.latencyMs))
    if (fault === 'hold') await new Promise<void>((resolve) => this.held.push(resolve))
    if (fault === 'hang') return void this.#hanging.add(response)
    if (typeof fault === 'object') return this.#respond(response, errorReply(fault))
    const problem = this.#clockProblem(request) ?? signatureProblem(request, url, body, this.account)
    if (problem !== null) return this.#respond(response, errorReply({ status: 403, code: problem }))
    const reply =
      bucket === this.account.bucket
        ? this.#reply({ kind, key, query: url.searchParams, headers: request.headers, body, isKnown })
        : errorReply({ status: 404, code: 'NoSuchBucket' })
    if (fault === 'lost_response') return void response.destroy()
    this.#respond(response, reply, fault)
  }

  #faultOf(kind: BucketRequestKind, name: string): BucketFault | undefined {
    for (const rule of this.rules) {
      if (rule.times === 0 || (rule.kind ?? kind) !== kind || !name.includes(rule.below ?? '')) continue
      if (rule.after > 0) {
        rule.after -= 1
        continue
      }
      rule.times -= 1
      return rule.fault
    }
    return undefined
  }

  #clockProblem({ headers }: IncomingMessage): string | null {
    const [, year, month, day, hour, minute, second] =
      /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(headers['x-amz-date'])) ?? []
    const signedMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
    return Math.abs(this.#nowMs() - signedMs) <= maxSkewMs ? null : 'RequestTimeTooSkewed'
  }

  #nowMs(): number {
    return Date.now() + this.behaviour.clockAheadMs
  }

  #respond(response: ServerResponse, { status, headers, body = '' }: Reply, fault?: BucketFault): void {
    const bytes = Buffer.from(body)
    response.writeHead(status, {
      date: new Date(this.#nowMs()).toUTCString(),
      'content-length': bytes.length,
      ...headers,
    })
    if (fault !== 'cut_download' && fault !== 'stalled_download') return void response.end(bytes)
    response.write(bytes.subarray(0, bytes.length / 2), () => {
      if (fault === 'cut_download') response.destroy()
      else this.#hanging.add(response)
    })
  }

  #reply(asked: Asked): Reply {
    switch (asked.kind) {
      case 'create':
      case 'put':
        return this.#put(asked)
      case 'get':
        return this.#get(asked)
      case 'list':
        return this.#list(asked)
      case 'delete':
        this.objects.delete(asked.key)
        return { status: 204 }
      default:
        return this.#multipart(asked)
    }
  }

  #put({ kind, key, headers, body, isKnown }: Asked): Reply {
    const { conditions } = this.behaviour
    if (kind === 'create' && conditions === 'rejected')
      return errorReply({ status: 501, code: 'NotImplemented' })
    if (kind === 'create' && conditions === 'supported' && this.objects.has(key))
      return errorReply({ status: 412, code: 'PreconditionFailed' })
    if (kind === 'create' && conditions === 'racy' && isKnown)
      return errorReply({ status: 412, code: 'PreconditionFailed' })
    return this.#store(key, body, headers)
  }

  #store(key: string, body: Buffer, headers: IncomingMessage['headers']): Reply {
    this.objects.set(key, { body, headers, modifiedMs: this.#nowMs() })
    return { status: 200, headers: { etag: etagOf(body) } }
  }

  #get({ key, headers }: Asked): Reply {
    const object = this.objects.get(key)
    if (object === undefined) return errorReply({ status: 404, code: 'NoSuchKey' })
    const [, from] = /^bytes=(\d+)-$/.exec(headers.range ?? '') ?? []
    const { body } = object
    const etag = etagOf(body)
    if (from === undefined || this.behaviour.ignoresRanges) return { status: 200, headers: { etag }, body }
    const start = Number(from)
    if (start >= body.length) return errorReply({ status: 416, code: 'InvalidRange' })
    const range = `bytes ${start}-${body.length - 1}/${body.length}`
    return { status: 206, headers: { etag, 'content-range': range }, body: body.subarray(start) }
  }

  #list({ query }: Asked): Reply {
    const prefix = query.get('prefix') ?? ''
    const after = query.get('continuation-token') ?? query.get('start-after') ?? ''
    const listedMs = this.#nowMs() - this.behaviour.listsAfterMs
    const names = [...this.objects]
      .filter(([key, { modifiedMs }]) => key.startsWith(prefix) && modifiedMs <= listedMs)
      .map(([key]) => key)
      .sort()
    if (this.behaviour.listsUnordered) names.reverse()
    const isAfter = (key: string) => this.behaviour.listsUnordered || key > after
    const left = names.filter(isAfter)
    const page = left.slice(0, Math.min(this.behaviour.pageSize, Number(query.get('max-keys') ?? 1_000)))
    const isTruncated = page.length < left.length
    const contents = page.map((key) => {
      const { body, modifiedMs } = this.objects.get(key)!
      const modified = new Date(modifiedMs).toISOString()
      return `<Contents><Key>${escapeXml(key)}</Key><LastModified>${modified}</LastModified><ETag>${escapeXml(etagOf(body))}</ETag><Size>${body.length}</Size><StorageClass>STANDARD</StorageClass></Contents>`
    })
    const next = isTruncated
      ? `<NextContinuationToken>${escapeXml(page.at(-1) ?? '')}</NextContinuationToken>`
      : ''
    return xml(
      `<ListBucketResult><Name>${this.account.bucket}</Name><Prefix>${escapeXml(prefix)}</Prefix><KeyCount>${page.length}</KeyCount><IsTruncated>${isTruncated}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`,
    )
  }

  #multipart({ kind, key, query, headers, body }: Asked): Reply {
    if (kind === 'begin_upload') {
      const id = randomUUID()
      this.uploads.set(id, { key, headers, parts: new Map() })
      return xml(`<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`)
    }
    const id = query.get('uploadId') ?? ''
    const upload = this.uploads.get(id)
    if (upload === undefined) return errorReply({ status: 404, code: 'NoSuchUpload' })
    if (kind === 'part') {
      upload.parts.set(Number(query.get('partNumber')), body)
      if (this.behaviour.showsParts) this.#store(upload.key, body, upload.headers)
      return { status: 200, headers: { etag: etagOf(body) } }
    }
    this.uploads.delete(id)
    if (kind === 'abort_upload') return { status: 204 }
    const parts = [...upload.parts].sort(([a], [b]) => a - b).map(([, part]) => part)
    if (this.behaviour.losesParts) parts.pop()
    this.#store(upload.key, Buffer.concat(parts), upload.headers)
    return xml('<CompleteMultipartUploadResult><ETag>"etag"</ETag></CompleteMultipartUploadResult>')
  }
}

function kindOf({ method, headers }: IncomingMessage, query: URLSearchParams): BucketRequestKind {
  if (method === 'GET') return query.get('list-type') === '2' ? 'list' : 'get'
  if (method === 'DELETE') return query.has('uploadId') ? 'abort_upload' : 'delete'
  if (method === 'POST') return query.has('uploads') ? 'begin_upload' : 'complete_upload'
  if (query.has('uploadId')) return 'part'
  return headers['if-none-match'] === '*' ? 'create' : 'put'
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Reads with listeners: the end of an iteration would end the request without closing its connection. */
function cutAfterHalf(request: IncomingMessage): Promise<void> {
  const half = Number(request.headers['content-length'] ?? 0) / 2
  let bytes = 0
  return new Promise((resolve) => {
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes < half) return
      request.socket.destroy()
      resolve()
    })
  })
}

function errorReply({ status, code, headers }: Exclude<BucketFault, string>): Reply {
  return {
    status,
    headers: { 'content-type': 'application/xml', ...headers },
    body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>says the test</Message></Error>`,
  }
}

function xml(text: string): Reply {
  const headers = { 'content-type': 'application/xml' }
  return { status: 200, headers, body: `<?xml version="1.0" encoding="UTF-8"?>${text}` }
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}

function etagOf(body: Buffer): string {
  return `"${createHash('md5').update(body).digest('hex')}"`
}
