/**
 * The messages between nodes of a cluster over core NATS. Each message is a head (JSON) and a body:
 *
 *   0  u32 BE  length of the head   4  head, UTF-8 JSON   then the body, to the end
 *
 * Subjects
 *   pipectl.<cluster>.node.<node_id>             requests to a node, and messages about requests that it serves
 *   pipectl.<cluster>.node.<node_id>.reply.<n>   responses to its request n; NATS itself reports there that no node listens
 *
 *   caller                                        node that serves
 *   request ───────────────────────────────────▶
 *           ◀─────────────────────────── ready     `confirm` only: it can start now
 *   go      ───────────────────────────────────▶   and the caller still waits
 *           ◀─────────────────────────── working   every second, until it is done
 *           ◀────────── part 0 … part n │ error
 *   ack     ───────────────────────────────────▶   the parts up to here have arrived
 *   cancel  ───────────────────────────────────▶   the caller no longer waits
 *
 * A command (`confirm`) never starts after its caller has stopped waiting: a node that was paused finds old requests
 * waiting, while the operator, who got "unknown", has already checked and repeated the command.
 *
 * Two neighboring versions of pipectl understand each other: unknown members of a head are ignored, an unknown method
 * is rejected as such, and `version` grows only when neither version can continue.
 */

import Type, { type Static } from 'typebox'
import { isObject } from '../contract/is-object.ts'
import { fits } from '../contract/validate.ts'

export const version = 1

/** Node ids and request numbers are parts of subjects, so other characters are not allowed. */
const nodeId = Type.String({ pattern: '^[0-9a-zA-Z-]{1,64}$' })
export const count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

/**
 * For these reasons nothing was done: `not_owner` another node has the pipe · `unknown_method`, `unknown_version`
 * another version of pipectl · `bad_request` · `busy`. For `unavailable` and `failed` it was started; the message
 * describes the outcome.
 */
export const errorReasons = [
  'not_owner',
  'unknown_method',
  'unknown_version',
  'bad_request',
  'busy',
  'unavailable',
  'failed',
] as const
export type ErrorReason = (typeof errorReasons)[number]

export const limits = {
  /** The limit of a head. Long texts are in the body. */
  headBytes: 4_096,
  /** The limit of a request's body: the ids of 10,000 destinations take 400 KB. */
  requestBytes: 768 * 1024,
  /** The limit of ids in a request. */
  ids: 10_000,
  /** The limit of one response: a message of up to 64 MiB, plus the text around it. */
  answerBytes: 66 * 1024 * 1024,
  partBytes: 256 * 1024,
  /** Parts in flight without an ack. */
  partsAhead: 8,
  /** The limit of an error's text. */
  messageCharacters: 500,
  /** Requests in progress, from this node and to this node. */
  requests: 4_096,
  /** Bytes of responses in progress, from this node and to this node. */
  bytesUnderWay: 256 * 1024 * 1024,
} as const

const request = { id: count, from: nodeId }
const toServerHead = Type.Union([
  Type.Object({
    kind: Type.Literal('request'),
    ...request,
    method: Type.String({ maxLength: 64 }),
    /** How long the method itself can wait, in ms. */
    waitMs: count,
    confirm: Type.Boolean(),
  }),
  Type.Object({ kind: Type.Union([Type.Literal('go'), Type.Literal('cancel')]), ...request }),
  /** Acknowledges every part up to and including `part`. */
  Type.Object({ kind: Type.Literal('ack'), ...request, part: count }),
])
export type ToServer = Static<typeof toServerHead>

const state = Type.Object({ kind: Type.Union([Type.Literal('ready'), Type.Literal('working')]) })
/** The body is a piece of `bytes`, the response: see `responsePieces`. */
const part = Type.Object({
  kind: Type.Literal('part'),
  part: count,
  parts: count,
  bytes: Type.Integer({ minimum: 0, maximum: limits.answerBytes }),
  wantsAck: Type.Boolean(),
})
const failure = Type.Object({ kind: Type.Literal('error'), reason: Type.String(), message: Type.String() })
const toCallerHead = Type.Union([state, part, failure])
export type ToCaller =
  | Static<typeof state>
  | Static<typeof part>
  | { kind: 'error'; reason: ErrorReason; message: string }

/** The caller gives up after this silence, in addition to the time that the method can wait. */
export const silenceMs = 3_000
/** The interval at which a serving node reports that it is still working. */
export const workingEveryMs = 1_000

interface NodeOfCluster {
  cluster: string
  nodeId: string
}

export function nodeSubject({ cluster, nodeId }: NodeOfCluster): string {
  return `pipectl.${cluster}.node.${nodeId}`
}

export function replySubject(node: NodeOfCluster, id: number | '*'): string {
  return `${nodeSubject(node)}.reply.${id}`
}

const none = new Uint8Array(0)

export function encode(head: object, body: Uint8Array = none): Uint8Array {
  const text = Buffer.from(JSON.stringify({ v: version, ...head }))
  const bytes = Buffer.allocUnsafe(4 + text.length + body.length)
  bytes.writeUInt32BE(text.length, 0)
  text.copy(bytes, 4)
  bytes.set(body, 4 + text.length)
  return bytes
}

export interface Decoded {
  head: Record<string, unknown>
  body: Uint8Array
}

/** Null when it is not a valid message. */
export function decode(data: Uint8Array): Decoded | null {
  if (data.byteLength < 4) return null
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  const length = bytes.readUInt32BE(0)
  if (length > limits.headBytes || 4 + length > bytes.length) return null
  const head = parsed(bytes.toString('utf8', 4, 4 + length))
  return isObject(head) ? { head, body: data.subarray(4 + length) } : null
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Null when it is not a message of a node. */
export function toServer({ head }: Decoded): ToServer | null {
  return fits(toServerHead, head) ? head : null
}

/** Null when it is not a message of a node. */
export function toCaller({ head }: Decoded): ToCaller | null {
  if (!fits(toCallerHead, head)) return null
  if (head.kind === 'part') return head.part < head.parts ? head : null
  if (head.kind !== 'error') return head
  // A newer version's reason: its message explains it.
  const reason = errorReasons.find((known) => known === head.reason) ?? 'failed'
  return { kind: 'error', reason, message: head.message.slice(0, limits.messageCharacters) }
}

/** The result of a method: JSON, and bytes that are not parsed. */
export interface NodeResponse {
  value: unknown
  bytes: Uint8Array<ArrayBuffer> | null
}

const responseHead = Type.Object({ value: Type.Unknown(), hasBytes: Type.Boolean() })

/** `0 u32 BE length of the JSON, 4 JSON, then the bytes`, in pieces that the caller joins. */
export function responsePieces({ value, bytes }: NodeResponse): Uint8Array[] {
  const text = Buffer.from(JSON.stringify({ value, hasBytes: bytes !== null }))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.length, 0)
  return bytes === null ? [length, text] : [length, text, bytes]
}

/** Null when it is invalid. The bytes are a view into `whole`. */
export function responseOf(whole: Uint8Array<ArrayBuffer>): NodeResponse | null {
  if (whole.byteLength < 4) return null
  const all = Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength)
  const length = all.readUInt32BE(0)
  if (4 + length > all.length) return null
  const found = parsed(all.toString('utf8', 4, 4 + length))
  if (!fits(responseHead, found)) return null
  return { value: found.value, bytes: found.hasBytes ? whole.subarray(4 + length) : null }
}

/** A copy of `[from, from + length)` of the pieces. */
export function sliceOf(pieces: readonly Uint8Array[], from: number, length: number): Uint8Array {
  const slice = Buffer.allocUnsafe(length)
  let at = 0
  let start = from
  for (const piece of pieces) {
    if (start >= piece.byteLength) {
      start -= piece.byteLength
      continue
    }
    const part = piece.subarray(start, start + length - at)
    slice.set(part, at)
    at += part.byteLength
    start = 0
    if (at === length) break
  }
  return slice.subarray(0, at)
}
