/**
 * A filter between the socket and the pg client's parser, which trusts its input: it loops forever on an error without its
 * terminator, and throws on short or negative counts. Only complete messages with a valid shape pass.
 *
 *   type u8 │ length i32, including itself │ body
 *
 * The server's authentication method is checked here too, before the client replies to it.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import { DeliveryError } from '../driver.ts'
import { protocolError } from '../guards.ts'

const headerBytes = 5

const nothing = Buffer.alloc(0)

export class MessageGate {
  readonly #allowsPasswordInClear: boolean
  /** Chunks of an incomplete message, and the number of bytes that are needed to continue. */
  #held: Buffer[] = []
  #heldBytes = 0
  #neededBytes = headerBytes
  #isBegun = false
  #saslState: 'none' | 'begun' | 'proved' = 'none'

  /** `allowsPasswordInClear`: false if a password, or its MD5, would go to an attacker on the path. */
  constructor(allowsPasswordInClear: boolean) {
    this.#allowsPasswordInClear = allowsPasswordInClear
  }

  /** Returns complete, checked messages. Throws a DeliveryError for invalid input; the connection is unusable then. */
  accept(chunk: Buffer): Buffer {
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    if (!this.#isBegun) this.#refuseOtherProtocols(chunk)
    // Joined only when that completes a message: a long message arrives in many chunks.
    if (this.#heldBytes < this.#neededBytes) return nothing
    const bytes = this.#held.length === 1 ? this.#held[0]! : Buffer.concat(this.#held)
    const end = this.#checkedEnd(bytes)
    this.#held = end === bytes.length ? [] : [bytes.subarray(end)]
    this.#heldBytes = bytes.length - end
    return bytes.subarray(0, end)
  }

  #refuseOtherProtocols(chunk: Buffer): void {
    this.#isBegun = true
    const error = wrongServer(chunk)
    if (error) throw error
  }

  /** Index of the end of the last complete message. */
  #checkedEnd(bytes: Buffer): number {
    let at = 0
    while (bytes.length - at >= headerBytes) {
      const length = bytes.readInt32BE(at + 1)
      if (length < 4 || length > resourceLimits.destinationReadBytes)
        throw malformed(`a message with the length ${length}`)
      if (bytes.length - at < length + 1) {
        this.#neededBytes = length + 1
        return at
      }
      this.#check(String.fromCharCode(bytes[at]!), bytes.subarray(at + headerBytes, at + length + 1))
      at += length + 1
    }
    this.#neededBytes = headerBytes
    return at
  }

  #check(type: string, body: Buffer): void {
    const isWellFormed = Object.hasOwn(shapes, type) ? shapes[type] : undefined
    if (isWellFormed === undefined) throw malformed('a message of an unknown or unexpected type')
    if (!isWellFormed(body)) throw malformed(`a damaged message of type "${type}"`)
    if (type === 'R') this.#checkAuthentication(body)
  }

  #checkAuthentication(body: Buffer): void {
    const method = body.readInt32BE(0)
    const rest = body.subarray(4)
    switch (method) {
      case 0:
        // With SCRAM both sides prove that they know the password; a server that skips its part does not know it.
        if (rest.length !== 0 || this.#saslState === 'begun')
          throw malformed('an authentication that it did not complete')
        return
      case 3:
        this.#checkPasswordRequest(rest, 0)
        return
      case 5:
        this.#checkPasswordRequest(rest, 4)
        return
      case 10:
        if (!areTexts(rest, 0, rest.length)) throw malformed('a damaged authentication request')
        this.#saslState = 'begun'
        return
      case 11:
      case 12:
        if (this.#saslState !== 'begun')
          throw malformed('a response to an authentication that was not started')
        if (method === 12) this.#saslState = 'proved'
        return
      default:
        throw malformed('a request for an unsupported authentication method')
    }
  }

  /** MD5 has a salt, a clear-text password has none. */
  #checkPasswordRequest(rest: Buffer, saltBytes: number): void {
    if (rest.length !== saltBytes) throw malformed('a damaged authentication request')
    if (!this.#allowsPasswordInClear) throw unsafeAuthentication(saltBytes === 0)
  }
}

/** Detects a server of another kind, which speaks first. Null: it may be PostgreSQL. */
export function wrongServer(chunk: Buffer): DeliveryError | null {
  // A MySQL greeting (protocol 10), or its error, such as "too many connections": length u24, number 0, payload.
  const isMysql = chunk.length > 4 && chunk[3] === 0 && (chunk[4] === 0x0a || chunk[4] === 0xff)
  if (isMysql && chunk.readUIntLE(0, 3) > 0 && chunk.readUIntLE(0, 3) < 65_536)
    return new DeliveryError(
      'permanent',
      'wrong_server',
      'This is a MySQL server: set dialect to mysql, or host and port to those of a PostgreSQL server.',
    )
  const beginning = chunk.toString('latin1', 0, 5)
  if (beginning.startsWith('HTTP/') || beginning.startsWith('SSH-'))
    return new DeliveryError(
      'permanent',
      'wrong_server',
      `This is not a PostgreSQL server (it speaks ${beginning.startsWith('S') ? 'SSH' : 'HTTP'}): check host and port.`,
    )
  return null
}

type Shape = (body: Buffer) => boolean
const isEmpty: Shape = (body) => body.length === 0
const isText: Shape = (body) => endOfTexts(body, 0, 1) === body.length

/** Every message that a server can send to this client. */
const shapes: Readonly<Record<string, Shape>> = {
  R: (body) => body.length >= 4, // Authentication…: the rest depends on the method
  '1': isEmpty, // ParseComplete
  '2': isEmpty, // BindComplete
  '3': isEmpty, // CloseComplete
  n: isEmpty, // NoData
  s: isEmpty, // PortalSuspended
  I: isEmpty, // EmptyQueryResponse
  C: isText, // CommandComplete
  S: (body) => endOfTexts(body, 0, 2) === body.length, // ParameterStatus
  A: (body) => body.length > 4 && endOfTexts(body, 4, 2) === body.length, // NotificationResponse
  K: (body) => body.length === 8, // BackendKeyData
  Z: (body) => body.length === 1 && 'ITE'.includes(String.fromCharCode(body[0]!)), // ReadyForQuery
  E: isReport, // ErrorResponse
  N: isReport, // NoticeResponse
  T: isRowDescription,
  t: (body) => body.length >= 2 && body.length === 2 + 4 * body.readInt16BE(0), // ParameterDescription
  D: isDataRow,
  // CopyInResponse: a format, and one for each column. Nothing is copied out.
  G: (body) => body.length >= 3 && body.length === 3 + 2 * body.readInt16BE(1),
}

/** PostgreSQL 18 has 18 fields. */
const maxReportFields = 64

/** Fields of a letter and a text, then a zero. */
function isReport(body: Buffer): boolean {
  let at = 0
  for (let left = maxReportFields; left > 0 && at < body.length && body[at] !== 0; left--) {
    at = endOfTexts(body, at + 1, 1)
    if (at === -1) return false
  }
  return at === body.length - 1
}

/** Zero-terminated texts, up to an empty one at the very end. */
function areTexts(body: Buffer, start: number, end: number): boolean {
  let at = start
  while (at < end && body[at] !== 0) {
    at = endOfTexts(body, at, 1)
    if (at === -1) return false
  }
  return at === end - 1
}

/** count i16, then for each column its name and 18 bytes. */
function isRowDescription(body: Buffer): boolean {
  if (body.length < 2) return false
  let at = 2
  for (let left = body.readInt16BE(0); left > 0; left--) {
    const end = endOfTexts(body, at, 1)
    if (end === -1) return false
    at = end + 18
    if (at > body.length) return false
  }
  return at === body.length && body.readInt16BE(0) >= 0
}

/** count i16, then for each value its length i32, -1 for NULL, and the value. */
function isDataRow(body: Buffer): boolean {
  if (body.length < 2) return false
  let at = 2
  for (let left = body.readInt16BE(0); left > 0; left--) {
    if (at + 4 > body.length) return false
    const length = body.readInt32BE(at)
    if (length < -1) return false
    at += 4 + Math.max(0, length)
  }
  return at === body.length && body.readInt16BE(0) >= 0
}

/** The index just after `count` zero-terminated texts that begin at `start`; -1 if there are fewer. */
function endOfTexts(body: Buffer, start: number, count: number): number {
  let at = start
  for (let left = count; left > 0; left--) {
    const zero = body.indexOf(0, at)
    if (zero === -1) return -1
    at = zero + 1
  }
  return at
}

function malformed(what: string): DeliveryError {
  return protocolError(
    `The database server sent ${what}, which PostgreSQL's protocol does not allow: check that host and port are those of a PostgreSQL server.`,
  )
}

function unsafeAuthentication(isClear: boolean): DeliveryError {
  const asked = isClear ? 'the password in clear' : 'an MD5 of the password'
  return new DeliveryError(
    'permanent',
    'unsafe_authentication',
    `The database server asks for ${asked}, which pipectl does not send over TLS with an unverified certificate: set password_encryption to scram-sha-256 there, set the password again, and use it in pg_hba.conf. (The setting destination_db_cleartext_auth lifts this.)`,
  )
}
