/**
 * Object stores for tests: `startS3`, a general S3 server from npm that checks no signatures, and `startSigV4Receiver`, a
 * small one of our own that does: it computes AWS Signature Version 4 itself, keeps what it is sent, and fails on demand.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const loopback = '127.0.0.1'

/** `endpoint` has path-style buckets; credentials S3RVER / S3RVER. */
export async function startS3(bucket: string): Promise<{ endpoint: string; stop(): Promise<void> }> {
  const directory = mkdtempSync(join(tmpdir(), 'pipectl-s3-'))
  const S3rver: new (options: object) => { run(): Promise<{ port: number }>; close(): Promise<void> } =
    createRequire(import.meta.url)('s3rver')
  const server = new S3rver({
    address: loopback,
    port: 0,
    directory,
    silent: true,
    configureBuckets: [{ name: bucket, configs: [] }],
  })
  const { port } = await server.run()
  return {
    endpoint: `http://${loopback}:${port}`,
    async stop() {
      await server.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** The receiver's response to the next requests, instead of storing and 200. */
export type ReceiverFault =
  | { status: number; code: string; headers?: Record<string, string>; extra?: string }
  /** Stores the object, then drops the connection without a response. */
  | 'store_then_cut'
  /** Reads the request and never answers. */
  | 'silence'

export interface ReceivedObject {
  body: Buffer
  headers: IncomingMessage['headers']
}

export interface SigV4Receiver {
  endpoint: string
  /** By key; multipart uploads once they are completed. */
  objects: Map<string, ReceivedObject>
  /** Each PUT of an object that was taken, in order: a key occurs once for every attempt. */
  puts: string[]
  /** `METHOD path?query` of every request. */
  requests: string[]
  /** One fault a request, first come first served. */
  faults: ReceiverFault[]
  /** Open connections. */
  connections(): Promise<number>
  stop(): Promise<void>
}

export interface Account {
  bucket: string
  region: string
  accessKey: string
  secretKey: string
}

export async function startSigV4Receiver(account: Account): Promise<SigV4Receiver> {
  const objects = new Map<string, ReceivedObject>()
  const uploads = new Map<string, Map<number, Buffer>>()
  const [puts, requests, faults]: [string[], string[], ReceiverFault[]] = [[], [], []]

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const url = new URL(request.url ?? '/', 'http://receiver')
    requests.push(`${request.method} ${request.url}`)
    const fault = faults.shift()
    if (fault === 'silence') return
    if (fault !== undefined && fault !== 'store_then_cut') return refuse(response, fault)
    const problem = signatureProblem(request, url, body, account)
    if (problem !== null) return refuse(response, { status: 403, code: problem })
    const [, bucket = '', ...rest] = url.pathname.split('/')
    if (bucket !== account.bucket) return refuse(response, { status: 404, code: 'NoSuchBucket' })
    const answer = store(request, url, decodeURIComponent(rest.join('/')), body)
    if (fault === 'store_then_cut') return void response.destroy()
    response.writeHead(answer.status, { etag: '"etag"', 'content-type': 'application/xml' }).end(answer.xml)
  }

  function store(
    request: IncomingMessage,
    url: URL,
    key: string,
    body: Buffer,
  ): { status: number; xml: string } {
    const uploadId = url.searchParams.get('uploadId')
    if (request.method === 'POST' && url.searchParams.has('uploads')) {
      const id = `upload-${uploads.size + 1}`
      uploads.set(id, new Map())
      objects.set(`${id}:headers`, { body: Buffer.alloc(0), headers: request.headers })
      return {
        status: 200,
        xml: `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      }
    }
    if (request.method === 'PUT' && uploadId !== null) {
      uploads.get(uploadId)?.set(Number(url.searchParams.get('partNumber')), body)
    } else if (request.method === 'POST' && uploadId !== null) {
      const parts = [...(uploads.get(uploadId) ?? [])].sort(([a], [b]) => a - b).map(([, part]) => part)
      const begun = objects.get(`${uploadId}:headers`)
      objects.delete(`${uploadId}:headers`)
      objects.set(key, { body: Buffer.concat(parts), headers: begun?.headers ?? {} })
      puts.push(key)
      return {
        status: 200,
        xml: '<CompleteMultipartUploadResult><ETag>"etag"</ETag></CompleteMultipartUploadResult>',
      }
    } else if (request.method === 'PUT') {
      objects.set(key, { body, headers: request.headers })
      puts.push(key)
    } else if (request.method === 'DELETE') {
      objects.delete(key)
      return { status: 204, xml: '' }
    }
    return { status: 200, xml: '' }
  }

  const server = createServer(
    (request, response) => void handle(request, response).catch(() => response.destroy()),
  )
  await new Promise<void>((resolve) => server.listen(0, loopback, resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the receiver has no port')
  return {
    endpoint: `http://${loopback}:${address.port}`,
    objects,
    puts,
    requests,
    faults,
    connections: () => new Promise((resolve) => server.getConnections((_, count) => resolve(count))),
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function refuse(
  response: ServerResponse,
  fault: { status: number; code: string; headers?: Record<string, string>; extra?: string },
): void {
  response.writeHead(fault.status, { 'content-type': 'application/xml', ...fault.headers })
  response.end(
    `<?xml version="1.0"?><Error><Code>${fault.code}</Code><Message>says the test</Message>${fault.extra ?? ''}</Error>`,
  )
}

/** Null when the request is signed by the account; else the S3 code that a real store would answer with. */
export function signatureProblem(
  request: IncomingMessage,
  url: URL,
  body: Buffer,
  { region, accessKey, secretKey }: Omit<Account, 'bucket'>,
): string | null {
  const form =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/
  const [, credential = '', day = '', signedRegion = '', names = '', signature = ''] =
    form.exec(request.headers.authorization ?? '') ?? []
  if (signature === '') return 'AccessDenied'
  if (credential !== accessKey) return 'InvalidAccessKeyId'
  if (signedRegion !== region) return 'AuthorizationHeaderMalformed'
  const claimedHash = String(request.headers['x-amz-content-sha256'])
  // As real stores do: the hash can be left out over TLS.
  const isLeftOut = claimedHash === 'UNSIGNED-PAYLOAD' && 'encrypted' in request.socket
  if (!isLeftOut && claimedHash !== sha256(body)) return 'XAmzContentSHA256Mismatch'
  const query = [...url.searchParams]
    .map(([key, value]) => `${encode(key)}=${encode(value)}`)
    .sort()
    .join('&')
  const headers = names
    .split(';')
    .map((name) => `${name}:${String(request.headers[name]).trim()}\n`)
    .join('')
  const canonical = [
    request.method,
    url.pathname
      .split('/')
      .map((part) => encode(decodeURIComponent(part)))
      .join('/'),
    query,
    headers,
    names,
    claimedHash,
  ].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const toSign = [
    'AWS4-HMAC-SHA256',
    request.headers['x-amz-date'],
    scope,
    sha256(Buffer.from(canonical)),
  ].join('\n')
  const key = [day, region, 's3', 'aws4_request'].reduce<Buffer>(
    (secret, part) => hmac(secret, part),
    Buffer.from(`AWS4${secretKey}`),
  )
  return timingSafeEqual(hmac(key, toSign), Buffer.from(signature, 'hex')) ? null : 'SignatureDoesNotMatch'
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
