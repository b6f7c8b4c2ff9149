/**
 * Commits a frame as one transaction. Messages whose idempotency key was used before, or whose pipe has used up its
 * share, are left out and reported by their index in the frame.
 */
import { type Frame, type FramedMessage, readFrame } from '../frame.ts'
import type { PipeKey } from '../key-store.ts'
import { onDisk } from './layout.ts'
import type { PipeTable } from './position.ts'
import type { SegmentWriter } from './segment-writer.ts'

/** The message for which a key was first used. */
export interface KeyedMessage extends PipeKey {
  bodyHash: string
  seq: number
  msgId: string
  recordCount: number
  receivedMs: number
}

export interface CommitRules {
  /** Returns null when the key is free. */
  findKey(key: PipeKey): KeyedMessage | null
  /** Returns false when the pipe gets no more space. */
  takeShare(pipeId: string, bytes: number): boolean
  /** Returns false when the pipe gets no more space for idempotency keys. */
  takeKey(pipeId: string): boolean
}

/** An append that was not stored: its index in the frame and the reason. */
export type SkippedAppend =
  | { index: number; kind: 'repeated' | 'reused'; first: KeyedMessage }
  | { index: number; kind: 'pipe_share' | 'idempotency_full' }

export interface CommittedFrame {
  /** Seq of the frame's first new message; the others follow without a gap. */
  firstSeq: number
  skipped: SkippedAppend[]
  /** The newest seq of every pipe that got messages. */
  pipes: [pipeId: string, seq: number][]
  keyed: KeyedMessage[]
}

interface Target {
  writer: SegmentWriter
  pipes: PipeTable
}

interface WrittenFrame {
  committed: CommittedFrame
  /** Seq of the frame's last new message; `afterSeq` when it has none. */
  lastSeq: number
  /** Time at which its first new message was received; null when it has none. */
  firstReceivedMs: number | null
}

/** New messages get the seqs after `afterSeq`. Throws errors of SQLite; then nothing of the frame is stored. */
export function commitFrame(
  frame: Frame,
  afterSeq: number,
  target: Target,
  rules: CommitRules,
): WrittenFrame {
  const { writer, pipes } = target
  const skipped: SkippedAppend[] = []
  const keyed = new Map<string, KeyedMessage>()
  let lastSeq = afterSeq
  let index = -1
  let firstReceivedMs: number | null = null
  try {
    writer.begin()
    for (const message of readFrame(frame)) {
      index += 1
      const first = firstOfKey(message, keyed, rules)
      if (first !== null) {
        skipped.push({ index, kind: message.bodyHash === first.bodyHash ? 'repeated' : 'reused', first })
        continue
      }
      const { pipeId, msgId, recordCount, receivedMs, body, idempotencyKey, bodyHash } = message
      if (idempotencyKey !== null && !rules.takeKey(pipeId)) {
        skipped.push({ index, kind: 'idempotency_full' })
        continue
      }
      if (!rules.takeShare(pipeId, onDisk({ messages: 1, bytes: body.length }))) {
        skipped.push({ index, kind: 'pipe_share' })
        continue
      }
      lastSeq += 1
      insert(message, lastSeq, target)
      firstReceivedMs ??= receivedMs
      if (idempotencyKey === null || bodyHash === null) continue
      const used = { pipeId, key: idempotencyKey, bodyHash, seq: lastSeq, msgId, recordCount, receivedMs }
      keyed.set(pipeId + idempotencyKey, used)
    }
    writer.commit()
  } catch (error) {
    pipes.undo()
    writer.rollback()
    throw error
  }
  const committed = {
    firstSeq: afterSeq + 1,
    skipped,
    pipes: pipes.takeCommitted(),
    keyed: [...keyed.values()],
  }
  return { committed, lastSeq, firstReceivedMs }
}

function insert(message: FramedMessage, seq: number, { writer, pipes }: Target): void {
  const { pipeId, recordCount, body } = message
  const { no, isNew, position } = pipes.advance(pipeId, seq, recordCount, body.length)
  if (isNew) writer.insertPipe(no, pipeId)
  writer.insertMessage(seq, no, message, position)
}

function firstOfKey(
  message: FramedMessage,
  inFrame: ReadonlyMap<string, KeyedMessage>,
  { findKey }: CommitRules,
): KeyedMessage | null {
  const { pipeId, idempotencyKey } = message
  if (idempotencyKey === null) return null
  return inFrame.get(pipeId + idempotencyKey) ?? findKey({ pipeId, key: idempotencyKey })
}
