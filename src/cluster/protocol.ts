/**
 * The messages between nodes of a cluster over core NATS. Each message is a head (JSON) and a body:
 *
 *   0  u32 BE  length of the head   4  head, UTF-8 JSON   then the body, to the end
 *
 * Subjects
 *   pipectl.<cluster>.node.<node_id>             requests to a node, and messages about requests that it serves
 *   pipectl.<cluster>.node.<node_id>.reply.<n>   responses to its request n; NATS itself reports there that no node listens
 *
 *   asker                                         node that serves
 *   request ───────────────────────────────────▶
 *           ◀─────────────────────────── ready     `confirm` only: it would begin now
 *   go      ───────────────────────────────────▶   and the asker still waits
 *           ◀─────────────────────────── working   every second, until it is done
 *           ◀────────── part 0 … part n │ error
 *   ack     ───────────────────────────────────▶   the parts up to here have arrived
 *   cancel  ───────────────────────────────────▶   the asker does not wait any more
 *
 * A command (`confirm`) is never begun after its asker has given up: a node that was stopped for a while finds the
 * requests of that time waiting, and an operator who got "unknown" has checked, and skipped again.
 *
 * Two neighboring versions of pipectl understand each other: unknown members of a head are ignored, an unknown method
 * is rejected as such, and `version` grows only when neither version can continue.
 */

export const version = 1

/** Node ids and request numbers are parts of subjects: nothing else may be. */
export const nodeIdPattern = /^[0-9a-zA-Z-]{1,64}$/

export type ToServer =
  | {
      kind: 'request'
      id: number
      from: string
      method: string
      /** How long the method itself may wait, ms. */
      waitMs: number
      confirm: boolean
    }
  | { kind: 'go' | 'cancel'; id: number; from: string }
  /** Every part up to and including `part`. */
  | { kind: 'ack'; id: number; from: string; part: number }

export type ToAsker =
  | { kind: 'ready' | 'working' }
  /** Body: a piece of `bytes`, the answer: see `answerBytes`. */
  | { kind: 'part'; part: number; parts: number; bytes: number; wantsAck: boolean }
  | { kind: 'error'; reason: ErrorReason; message: string }

/**
 * Nothing was done, for these: `not_owner` the pipe is another node's · `unknown_method`, `unknown_version` another version of
 * pipectl · `bad_request` · `busy`.
 * `unavailable`, `failed`: it was begun; what became of it is in the message.
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
  /** The limit of a request's body: the ids of 10,000 destinations have 400 KB. */
  requestBytes: 768 * 1024,
  /** A request names no more ids. */
  ids: 10_000,
  /** The limit of one response: a message has up to 64 MiB, plus its surroundings. */
  answerBytes: 66 * 1024 * 1024,
  partBytes: 256 * 1024,
  /** Parts on their way without an ack. */
  partsAhead: 8,
  /** The limit of an error's text. */
  messageCharacters: 500,
  /** Requests under way, of this node and to this node. */
  requests: 4_096,
  /** Bytes of answers under way, of this node and to this node. */
  bytesUnderWay: 256 * 1024 * 1024,
} as const

/** Who asks gives up when it has heard nothing for so long, beyond what the method may wait. */
export const silenceMs = 3_000
/** The interval at which a serving node reports that it is still working. */
export const workingEveryMs = 1_000

export function nodeSubject(cluster: string, nodeId: string): string {
  return `pipectl.${cluster}.node.${nodeId}`
}

export function replySubject(cluster: string, nodeId: string, id: number | '*'): string {
  return `${nodeSubject(cluster, nodeId)}.reply.${id}`
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

/** Null: that is no message of ours. */
export function decode(data: Uint8Array): Decoded | null {
  if (data.byteLength < 4) return null
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  const length = bytes.readUInt32BE(0)
  if (length > limits.headBytes || 4 + length > bytes.length) return null
  const head = parsed(bytes.toString('utf8', 4, 4 + length))
  if (typeof head !== 'object' || head === null || Array.isArray(head)) return null
  return { head: head as Record<string, unknown>, body: data.subarray(4 + length) }
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function toServer({ head }: Decoded): ToServer | null {
  const { kind, id, from } = head
  if (!isCount(id) || typeof from !== 'string' || !nodeIdPattern.test(from)) return null
  switch (kind) {
    case 'request': {
      const { method, waitMs, confirm } = head
      if (typeof method !== 'string' || method.length > 64 || !isCount(waitMs)) return null
      return { kind, id, from, method, waitMs, confirm: confirm === true }
    }
    case 'go':
    case 'cancel':
      return { kind, id, from }
    case 'ack':
      return isCount(head.part) ? { kind, id, from, part: head.part } : null
    default:
      return null
  }
}

export function toAsker({ head }: Decoded): ToAsker | null {
  switch (head.kind) {
    case 'ready':
    case 'working':
      return { kind: head.kind }
    case 'part': {
      const { part, parts, bytes, wantsAck } = head
      if (!isCount(part) || !isCount(parts) || !isCount(bytes) || part >= parts) return null
      if (bytes > limits.answerBytes) return null
      return { kind: 'part', part, parts, bytes, wantsAck: wantsAck === true }
    }
    case 'error': {
      const reason = errorReasons.find((known) => known === head.reason)
      const message = typeof head.message === 'string' ? head.message : ''
      // A newer version's reason: what it means is in its message.
      return {
        kind: 'error',
        reason: reason ?? 'failed',
        message: message.slice(0, limits.messageCharacters),
      }
    }
    default:
      return null
  }
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** The result of a method: JSON, and bytes that must not pass through a parser. */
export interface Answer {
  value: unknown
  bytes: Uint8Array<ArrayBuffer> | null
}

/** `0 u32 BE length of the JSON, 4 JSON, then the bytes`, in pieces that the caller puts together. */
export function answerPieces({ value, bytes }: Answer): Uint8Array[] {
  const text = Buffer.from(JSON.stringify({ value, hasBytes: bytes !== null }))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.length, 0)
  return bytes === null ? [length, text] : [length, text, bytes]
}

/** Null: that is none. The bytes are the memory that was given. */
export function answerOf(whole: Uint8Array<ArrayBuffer>): Answer | null {
  if (whole.byteLength < 4) return null
  const all = Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength)
  const length = all.readUInt32BE(0)
  if (4 + length > all.length) return null
  const found = parsed(all.toString('utf8', 4, 4 + length))
  if (typeof found !== 'object' || found === null || !('value' in found)) return null
  const hasBytes = 'hasBytes' in found && found.hasBytes === true
  return { value: found.value, bytes: hasBytes ? whole.subarray(4 + length) : null }
}

/** `[from, from + length)` of the pieces, copied. */
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
