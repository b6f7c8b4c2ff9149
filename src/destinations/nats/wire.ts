/**
 * The part of the NATS client protocol that publishing needs: a parser for server messages, and the messages to send.
 *
 *   INFO {…}␍␊      MSG subject sid [reply] bytes␍␊ payload ␍␊      HMSG subject sid [reply] header-bytes bytes␍␊ … ␍␊
 *   PING␍␊  PONG␍␊  +OK␍␊  -ERR 'text'␍␊
 *
 * The server can be malicious: lines and payloads are bounded, and any other input is an error. Its list of other servers
 * (`connect_urls`) is ignored.
 */
import { protocolError } from '../guards.ts'

export interface ServerInfo {
  /** Maximum bytes of a message, including its headers. */
  maxPayload: number
  nonce: string | undefined
  takesHeaders: boolean
  offersTls: boolean
  needsTls: boolean
  /** Lame duck mode: the server is shutting down, so new connections use others. */
  isLeaving: boolean
}

export type ServerSaid =
  | { kind: 'info'; info: ServerInfo }
  | { kind: 'ping' }
  | { kind: 'pong' }
  | { kind: 'error'; text: string }
  /** `status`: from the headers, such as 503; null if there is none. */
  | { kind: 'message'; subject: string; status: number | null; payload: Buffer }

/** The limits of nats-server: 4 KiB, except for INFO, which lists the servers of a cluster. */
const maxInfoBytes = 64 * 1024
const maxLineBytes = 4 * 1024
/** Acknowledgements take a few hundred bytes; the list of streams that a test requests, a little more. */
const maxMessageBytes = 64 * 1024
const lineEnd = Buffer.from('\r\n')

/** Accepts the bytes read, in chunks of any size. Throws a DeliveryError (`protocol_error`). */
export class ServerReader {
  #unread: Buffer = Buffer.alloc(0)
  #message: { subject: string; headerBytes: number; bytes: number } | null = null

  /** True if every byte read was consumed. */
  get isEmpty(): boolean {
    return this.#unread.length === 0 && this.#message === null
  }

  *read(chunk: Buffer): Generator<ServerSaid> {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk])
    for (;;) {
      const said = this.#message === null ? this.#line() : this.#payload()
      if (said === null) return
      if (said !== 'nothing') yield said
    }
  }

  /** Null: no complete line was received yet. */
  #line(): ServerSaid | 'nothing' | null {
    const end = this.#unread.indexOf(lineEnd)
    const length = end === -1 ? this.#unread.length : end
    const most = this.#unread[0] === 0x49 ? maxInfoBytes : maxLineBytes
    if (length > most) throw notNats()
    if (end === -1) return null
    const line = this.#unread.toString('utf8', 0, end)
    this.#unread = this.#unread.subarray(end + lineEnd.length)
    return this.#said(line)
  }

  #said(line: string): ServerSaid | 'nothing' {
    if (line === 'PING') return { kind: 'ping' }
    if (line === 'PONG') return { kind: 'pong' }
    if (line === '+OK') return 'nothing'
    if (line.startsWith('INFO ')) return { kind: 'info', info: parseInfo(line.slice('INFO '.length)) }
    if (line.startsWith('-ERR')) return { kind: 'error', text: line.slice(4).trim().replace(/^'|'$/g, '') }
    this.#message = parseMessage(line)
    return 'nothing'
  }

  #payload(): ServerSaid | null {
    if (this.#message === null) return null
    const { subject, headerBytes, bytes } = this.#message
    if (this.#unread.length < bytes + lineEnd.length) return null
    if (this.#unread.compare(lineEnd, 0, 2, bytes, bytes + 2) !== 0) throw notNats()
    const head = this.#unread.toString('latin1', 0, headerBytes)
    const [, status] = /^NATS\/1\.0[ \t]+(\d{3})/.exec(head) ?? []
    // Copied: a view would retain the whole chunk.
    const payload = Buffer.from(this.#unread.subarray(headerBytes, bytes))
    this.#unread = this.#unread.subarray(bytes + lineEnd.length)
    this.#message = null
    return { kind: 'message', subject, status: status === undefined ? null : Number(status), payload }
  }
}

export interface Publication {
  subject: string
  replyTo: string
  /** Names and values have no line breaks. */
  headers: readonly (readonly [string, string])[]
  payload: Buffer
}

/** The protocol line and headers before the payload; `\r\n` follows the payload. */
export function publishHead({ subject, replyTo, headers, payload }: Publication): Buffer {
  if (headers.length === 0) return Buffer.from(`PUB ${subject} ${replyTo} ${payload.length}\r\n`)
  const block = headerBlock(headers)
  const sizes = `${block.length} ${block.length + payload.length}`
  return Buffer.concat([Buffer.from(`HPUB ${subject} ${replyTo} ${sizes}\r\n`), block])
}

/** Size as `max_payload` counts it. */
export function messageBytes({ headers, payload }: Pick<Publication, 'headers' | 'payload'>): number {
  return (headers.length === 0 ? 0 : headerBlock(headers).length) + payload.length
}

function headerBlock(headers: Publication['headers']): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`NATS/1.0\r\n${lines.join('')}\r\n`)
}

/** `MSG subject sid [reply] bytes`, `HMSG subject sid [reply] header-bytes bytes`. */
function parseMessage(line: string): { subject: string; headerBytes: number; bytes: number } {
  const [verb, subject = '', ...rest] = line.split(' ')
  const sizes = verb === 'HMSG' ? rest.slice(-2) : ['0', ...rest.slice(-1)]
  const isKnown = verb === 'MSG' || verb === 'HMSG'
  if (!isKnown || subject === '' || rest.length - sizes.length > 2) throw notNats()
  if (!sizes.every((size) => /^\d{1,9}$/.test(size))) throw notNats()
  const [headerBytes = 0, bytes = 0] = sizes.map(Number)
  if (headerBytes > bytes || bytes > maxMessageBytes) throw notNats()
  return { subject, headerBytes, bytes }
}

function parseInfo(text: string): ServerInfo {
  let info: Record<string, unknown>
  try {
    info = Object(JSON.parse(text))
  } catch (error) {
    throw notNats(error)
  }
  const { max_payload: maxPayload, nonce } = info
  if (typeof maxPayload !== 'number' || !Number.isSafeInteger(maxPayload) || maxPayload < 1) throw notNats()
  return {
    maxPayload,
    nonce: typeof nonce === 'string' ? nonce : undefined,
    takesHeaders: info.headers === true,
    offersTls: info.tls_required === true || info.tls_available === true,
    needsTls: info.tls_required === true,
    isLeaving: info.ldm === true,
  }
}

function notNats(cause?: unknown) {
  return protocolError('The server sent data that the protocol of NATS does not allow.', cause)
}
