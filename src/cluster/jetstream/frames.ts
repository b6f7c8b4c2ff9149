/**
 * The buffer's messages in JetStream. A JetStream message is one frame: messages of one pipe, laid out as in `../../log/frame.ts`.
 *
 *   subject   pipectl.<cluster>.buffer.<pipe_id>.f               messages without an Idempotency-Key
 *             pipectl.<cluster>.buffer.<pipe_id>.k.<chain>       messages with one, of one appender (keyed-appends.ts). An earlier
 *                                                                version had a subject for each key here
 *   headers   what of the frame is asked for more often than the frame itself, see FrameHead
 *   body      the frame
 *
 * `seq` = the stream's sequence × 1,024 + the message's place in the frame: ascending, unique, below 2^53 for 8 × 10^12
 * frames. Sequences begin with 1, so no `seq` is below 1,024.
 */
import { type FramedMessage, readFramed } from '../../log/frame.ts'
import { headers, type MsgHdrs } from '../nats/headers.ts'

/** As many as there are places in a `seq`. */
export const messagesPerFrame = 1_024
/** Kept free of a server's `max_payload` for what a frame needs beside one body: its headers, its head, a key. */
export const frameHeadBytes = 4_096

export function streamName(cluster: string): string {
  return `pipectl-${cluster}`
}

/** The name of the stream that keeps checkpoints of the pipes' totals. */
export function totalsStreamName(cluster: string): string {
  return `pipectl-${cluster}-totals`
}

/** All that the stream holds. */
export function bufferSubjects(cluster: string): string {
  return `pipectl.${cluster}.buffer.>`
}

/** All of one pipe. */
export function pipeSubjects(cluster: string, pipeId: string): string {
  return `pipectl.${cluster}.buffer.${pipeId}.>`
}

/** A pipe's frames without a key. */
export function frameSubject(cluster: string, pipeId: string): string {
  return `pipectl.${cluster}.buffer.${pipeId}.f`
}

/** Frames with keys of one appender: each is stored only right after the one before it. */
export function chainSubject(cluster: string, pipeId: string, chain: string): string {
  return `pipectl.${cluster}.buffer.${pipeId}.k.${chain}`
}

/** The pipe of a frame. */
export function pipeIdOf(cluster: string, subject: string): string {
  const from = `pipectl.${cluster}.buffer.`.length
  return subject.slice(from, subject.indexOf('.', from))
}

export function totalsSubjects(cluster: string): string {
  return `pipectl.${cluster}.totals.*`
}

export function totalsSubject(cluster: string, pipeId: string): string {
  return `pipectl.${cluster}.totals.${pipeId}`
}

/** Core NATS: `[[pipeId, seq], …]` in JSON, by whoever appended, once they are acknowledged. */
export function commitsSubject(cluster: string): string {
  return `pipectl.${cluster}.commits`
}

/** Core NATS: by whoever has purged a part of the stream, without a body. */
export function droppedSubject(cluster: string): string {
  return `pipectl.${cluster}.dropped`
}

/** Core NATS: what the pipes hold, by their owners (fair share). */
export function sharesSubject(cluster: string): string {
  return `pipectl.${cluster}.shares`
}

/** `streamSeq`: the stream's sequence of the frame. */
export function seqOf(streamSeq: number, index: number): number {
  return streamSeq * messagesPerFrame + index
}

/** The sequence of the frame that a `seq` lies in. */
export function streamSeqOf(seq: number): number {
  return Math.floor(seq / messagesPerFrame)
}

/** The place of a `seq` in its frame. */
export function indexOf(seq: number): number {
  return seq % messagesPerFrame
}

/** The facts in a frame's headers. */
export interface FrameHead {
  workspaceId: string
  messages: number
  records: number
  /** The bytes of the bodies, as Backlog counts them. */
  bytes: number
  /** When the first and the last of its messages were received, ms since the epoch. */
  firstMs: number
  lastMs: number
}

/** A message of the stream that is no frame, or not a whole one. */
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

/** The frame's messages, each body a view into `data`. Checksums are not compared. Throws FrameDamagedError. */
export function decodeFrame(data: Uint8Array, messages: number): FramedMessage[] {
  if (!(data.buffer instanceof ArrayBuffer)) throw new TypeError('a frame is an ArrayBuffer')
  try {
    return [...readFramed(Buffer.from(data.buffer, data.byteOffset, data.byteLength), messages)]
  } catch (error) {
    throw new FrameDamagedError(
      `a frame of the stream cannot be read: ${error instanceof Error ? error.message : error}`,
    )
  }
}

function numberOf(encoded: MsgHdrs, name: string): number {
  const text = encoded.get(name)
  const value = Number(text)
  if (text === '' || !Number.isFinite(value) || value < 0)
    throw new FrameDamagedError(`the header ${name} of a frame is ${JSON.stringify(text)}`)
  return value
}
