/**
 * The buffer's messages in JetStream. A JetStream message is one frame: messages of one pipe, laid out as in
 * `../../log/frame.ts`.
 *
 *   subject   pipectl.<cluster>.buffer.<pipe_id>.f           messages without an Idempotency-Key
 *             pipectl.<cluster>.buffer.<pipe_id>.k.<chain>   messages with a key, of one appender (keyed-appends.ts).
 *                                                            An earlier version had a subject for each key here
 *   headers   the facts that are needed more often than the frame itself: see FrameHead
 *   body      the frame
 *
 * `seq` = the stream's sequence × 1,024 + the message's index in the frame: ascending, unique, below 2^53 for 8 ×
 * 10^12 frames. Sequences begin with 1, so no `seq` is below 1,024.
 */
import type { NewMessage } from '../../log/buffer.ts'
import {
  appendToFrame,
  type FramedMessage,
  framedBytes,
  type OpenFrame,
  openFrame,
  readFramed,
} from '../../log/frame.ts'
import { messageOf } from '../../platform/error-code.ts'
import { headers, type MsgHdrs } from '../nats/headers.ts'

/** The number of indexes in a `seq`. */
export const messagesPerFrame = 1_024
/** The part of a server's `max_payload` that is reserved for a frame's headers, message header and key. */
export const frameHeadBytes = 4_096

export function streamName(cluster: string): string {
  return `pipectl-${cluster}`
}

/** The name of the stream that keeps checkpoints of the pipes' totals. */
export function totalsStreamName(cluster: string): string {
  return `pipectl-${cluster}-totals`
}

/** All subjects of the stream. */
export function bufferSubjects(cluster: string): string {
  return `pipectl.${cluster}.buffer.>`
}

/** A pipe in the subjects of its cluster. */
interface PipeOfCluster {
  cluster: string
  pipeId: string
}

/** All subjects of one pipe. */
export function pipeSubjects({ cluster, pipeId }: PipeOfCluster): string {
  return `pipectl.${cluster}.buffer.${pipeId}.>`
}

/** The subject of a pipe's frames without keys. */
export function frameSubject({ cluster, pipeId }: PipeOfCluster): string {
  return `pipectl.${cluster}.buffer.${pipeId}.f`
}

/** The subject of one appender's frames with keys. Each is stored only directly after the one before it. */
export function chainSubject({ cluster, pipeId, chain }: PipeOfCluster & { chain: string }): string {
  return `pipectl.${cluster}.buffer.${pipeId}.k.${chain}`
}

/** The pipe of a frame. */
export function pipeIdOf({ cluster, subject }: { cluster: string; subject: string }): string {
  const from = `pipectl.${cluster}.buffer.`.length
  return subject.slice(from, subject.indexOf('.', from))
}

export function totalsSubjects(cluster: string): string {
  return `pipectl.${cluster}.totals.*`
}

export function totalsSubject({ cluster, pipeId }: PipeOfCluster): string {
  return `pipectl.${cluster}.totals.${pipeId}`
}

/** Core NATS subject: `[[pipeId, seq], …]` in JSON, published by the appending node after the acknowledgement. */
export function commitsSubject(cluster: string): string {
  return `pipectl.${cluster}.commits`
}

/** Core NATS subject: an empty message from the node that has purged a part of the stream. */
export function droppedSubject(cluster: string): string {
  return `pipectl.${cluster}.dropped`
}

/** Core NATS subject: the bytes held by each pipe, published by the owners (fair share). */
export function sharesSubject(cluster: string): string {
  return `pipectl.${cluster}.shares`
}

/** `streamSeq` is the frame's sequence in the stream. */
export function seqOf(streamSeq: number, index: number): number {
  return streamSeq * messagesPerFrame + index
}

/** The stream sequence of the frame that contains a `seq`. */
export function streamSeqOf(seq: number): number {
  return Math.floor(seq / messagesPerFrame)
}

/** The index of a `seq` in its frame. */
export function indexOf(seq: number): number {
  return seq % messagesPerFrame
}

/** The facts in a frame's headers. */
export interface FrameHead {
  workspaceId: string
  messages: number
  records: number
  /** Bytes of the bodies, counted like in Backlog. */
  bytes: number
  /** Receive times of its first and last message, ms since the epoch. */
  firstMs: number
  lastMs: number
}

/** A frame with these messages of one pipe. */
export function frameOf(messages: readonly NewMessage[]): { frame: OpenFrame; head: FrameHead } {
  const frame = openFrame(messages.reduce((sum, message) => sum + framedBytes(message), 0))
  for (const message of messages) appendToFrame(frame, message)
  const times = messages.map(({ receivedMs }) => receivedMs)
  const head = {
    workspaceId: messages[0]?.workspaceId ?? '',
    messages: messages.length,
    records: messages.reduce((sum, { recordCount }) => sum + recordCount, 0),
    bytes: messages.reduce((sum, { body }) => sum + body.length, 0),
    firstMs: Math.min(...times),
    lastMs: Math.max(...times),
  }
  return { frame, head }
}

/** A message of the stream that is no frame, or an incomplete one. */
export class FrameDamagedError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'FrameDamagedError'
  }
}

const names = {
  messages: 'Pipectl-Count',
  records: 'Pipectl-Records',
  bytes: 'Pipectl-Bytes',
  firstMs: 'Pipectl-First',
  lastMs: 'Pipectl-Last',
} as const
const workspaceName = 'Pipectl-Workspace'

export function encodeHead(head: FrameHead): MsgHdrs {
  const encoded = headers()
  for (const [field, name] of Object.entries(names))
    encoded.append(name, String(head[field as keyof typeof names]))
  encoded.append(workspaceName, head.workspaceId)
  return encoded
}

/** Throws FrameDamagedError. */
export function decodeHead(encoded: MsgHdrs | undefined): FrameHead {
  if (encoded === undefined) throw new FrameDamagedError('a message of the stream has no headers')
  const head: FrameHead = {
    workspaceId: encoded.get(workspaceName),
    messages: numberOf(encoded, names.messages),
    records: numberOf(encoded, names.records),
    bytes: numberOf(encoded, names.bytes),
    firstMs: numberOf(encoded, names.firstMs),
    lastMs: numberOf(encoded, names.lastMs),
  }
  if (head.messages < 1 || head.messages > messagesPerFrame)
    throw new FrameDamagedError(`a frame of the stream has ${head.messages} messages`)
  return head
}

/** Returns the frame's messages; each body is a view into `data`. Checksums are not verified. Throws FrameDamagedError. */
export function decodeFrame(data: Uint8Array, messages: number): FramedMessage[] {
  if (!(data.buffer instanceof ArrayBuffer)) throw new TypeError('a frame is an ArrayBuffer')
  try {
    return [...readFramed(Buffer.from(data.buffer, data.byteOffset, data.byteLength), messages)]
  } catch (error) {
    throw new FrameDamagedError(`a frame of the stream cannot be read: ${messageOf(error)}`)
  }
}

function numberOf(encoded: MsgHdrs, name: string): number {
  const text = encoded.get(name)
  const value = Number(text)
  if (text === '' || !Number.isFinite(value) || value < 0)
    throw new FrameDamagedError(`the header ${name} of a frame is ${JSON.stringify(text)}`)
  return value
}
