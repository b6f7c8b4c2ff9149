/**
 * The writer's view of the whole log: the sealed segments, the newest one open for writing, and every pipe's running
 * totals. One frame is one transaction: all of its messages, or none. When to seal and what to drop is decided by
 * the caller; `layout.ts` says what a crash between the steps leaves.
 */
import assert from 'node:assert'
import type { PipePosition } from '../buffer.ts'
import { type Frame, type FramedMessage, readFrame } from '../frame.ts'
import {
  fileBytes,
  fsyncDirectory,
  listSegments,
  removeLeftovers,
  segmentBytes,
  segmentFile,
  unlinkSegment,
} from './layout.ts'
import { openPipeTable } from './pipe-table.ts'
import {
  openReadOnly,
  readSegmentContent,
  type SegmentContent,
  type SegmentFacts,
  segmentFacts,
} from './segment-facts.ts'
import { createSegment, openForWriting, type SegmentWriter, segmentWriter } from './segment-file.ts'
import { isDiskFull } from './sqlite-errors.ts'

/** The message that a key was first used for. */
export interface KeyedMessage {
  pipeId: string
  key: string
  seq: number
  msgId: string
  recordCount: number
  receivedMs: number
}

/** Answers null when the key is free at that time. */
export type FindKey = (pipeId: string, key: string, atMs: number) => KeyedMessage | null

export interface CommittedFrame {
  /** Seq of the frame's first new message; those after it follow without a gap. */
  firstSeq: number
  /** By their place in the frame: appends whose key was used before. */
  repeated: { index: number; first: KeyedMessage }[]
  /** The newest seq of every pipe that got messages. */
  pipes: [pipeId: string, seq: number][]
  keyed: KeyedMessage[]
}

export interface SegmentLog {
  /** Throws what SQLite throws; nothing of the frame is kept then. */
  commit(frame: Frame, clockMs: number, findKey: FindKey): CommittedFrame
  readonly headSeq: number
  /** Messages below the high-water mark that were not found when the log was opened. */
  readonly missingMessages: number
  /** The buffer's clock at the last commit. */
  readonly lastClockMs: number
  /** The segment being written. */
  current(): { firstSeq: number; bytes: number; messages: number; begunClockMs: number }
  /**
   * Begins a new segment and seals the one being written, which must hold a message. Throws a disk-full error when
   * there is no room for a new one: the old one is still being written then.
   */
  roll(clockMs: number, isForgotten: (pipeId: string, lastSeq: number) => boolean): void
  /** Of all segments that hold messages, the one being written last. */
  facts(): SegmentFacts[]
  /** Unlinks a sealed segment. */
  drop(firstSeq: number): void
  readonly segmentCount: number
  /** Of the oldest message that is kept. */
  readonly oldestReceivedMs: number | null
  /** On disk, with WALs. */
  diskBytes(): number
  totals(): Map<string, PipePosition>
  checkpoint(): void
  close(): void
}

/** `highWaterSeq`: no seq up to it is given out again, even if its message is missing. */
export function openSegmentLog(dir: string, highWaterSeq: number, clockMs: number): SegmentLog {
  removeLeftovers(dir)
  if (listSegments(dir).length === 0) createSegment(dir, highWaterSeq + 1, clockMs, [])
  // A rename that the last run did not live to make durable is made so now.
  fsyncDirectory(dir)
  const names = listSegments(dir)
  const newest = names.pop()
  assert(newest !== undefined, 'a segment was made')
  const db = openForWriting(dir, newest)
  const content = readSegmentContent(db)
  const sealed = readSealed(dir, names, content.begunClockMs)
  return segmentLog(dir, segmentWriter(db, newest), content, sealed, highWaterSeq, clockMs)
}

/** Newest first, because a segment that does not know its end ended before the next one was begun. */
function readSealed(dir: string, names: readonly number[], nextBegunClockMs: number): SegmentFacts[] {
  const facts: SegmentFacts[] = []
  let lastClockMs = nextBegunClockMs
  for (const firstSeq of names.toReversed()) {
    if (fileBytes(`${segmentFile(dir, firstSeq)}-wal`) > 0) {
      segmentWriter(openForWriting(dir, firstSeq), firstSeq).close()
    }
    const db = openReadOnly(dir, firstSeq)
    const content = readSegmentContent(db)
    db.close()
    facts.unshift(segmentFacts(firstSeq, segmentBytes(dir, firstSeq), content, lastClockMs))
    lastClockMs = content.begunClockMs
  }
  return facts
}

function segmentLog(
  dir: string,
  newest: SegmentWriter,
  content: SegmentContent,
  sealed: SegmentFacts[],
  highWaterSeq: number,
  openedClockMs: number,
): SegmentLog {
  const pipes = openPipeTable(content.pipes)
  let writer = newest
  let { begunClockMs, firstReceivedMs } = content
  let messages = content.pipes.reduce((sum, pipe) => sum + pipe.last.messages - pipe.base.messages, 0)
  // At the latest, when it was committed by an earlier run.
  let lastClockMs = Math.max(openedClockMs, begunClockMs)
  const foundSeq = content.lastSeq ?? newest.firstSeq - 1
  let headSeq = Math.max(foundSeq, highWaterSeq)
  const missingMessages = headSeq - foundSeq
  // Readers find the next segment by this one's last row, which is older than the head while messages are missing.
  let lastRowSeq = foundSeq

  function commit(frame: Frame, clockMs: number, findKey: FindKey): CommittedFrame {
    const firstSeq = headSeq + 1
    const repeated: CommittedFrame['repeated'] = []
    const keyed = new Map<string, KeyedMessage>()
    let seq = headSeq
    let index = 0
    let oldestReceivedMs = firstReceivedMs
    try {
      writer.begin()
      for (const message of readFrame(frame)) {
        const first = firstOfKey(message, keyed, findKey)
        if (first !== null) repeated.push({ index, first })
        else {
          seq += 1
          insert(message, seq)
          oldestReceivedMs ??= message.receivedMs
          if (message.idempotencyKey !== null) {
            const key = message.idempotencyKey
            const { pipeId, msgId, recordCount, receivedMs } = message
            keyed.set(pipeId + key, { pipeId, key, seq, msgId, recordCount, receivedMs })
          }
        }
        index += 1
      }
      writer.commit()
    } catch (error) {
      pipes.undo()
      writer.rollback()
      throw error
    }
    if (seq > headSeq) lastRowSeq = seq
    messages += seq - headSeq
    headSeq = seq
    lastClockMs = clockMs
    firstReceivedMs = oldestReceivedMs
    return { firstSeq, repeated, pipes: pipes.settle(), keyed: [...keyed.values()] }
  }

  function insert(message: FramedMessage, seq: number): void {
    const { pipeId, recordCount, body } = message
    const { no, isNew, position } = pipes.advance(pipeId, seq, recordCount, body.length)
    if (isNew) writer.insertPipe(no, pipeId)
    writer.insertMessage(seq, no, message, position)
  }

  function roll(clockMs: number, isForgotten: (pipeId: string, lastSeq: number) => boolean): void {
    assert(messages > 0, 'an empty segment is not sealed')
    const oldestKept = sealed[0]?.firstSeq ?? writer.firstSeq
    // A deleted pipe is carried on for as long as messages of it are kept.
    const bases = pipes
      .inSegment()
      .filter(({ pipeId, last }) => last.seq >= oldestKept || !isForgotten(pipeId, last.seq))
      .map(({ pipeId, last }) => ({ pipeId, position: last }))
    const firstSeq = lastRowSeq + 1
    createSegment(dir, firstSeq, clockMs, bases)
    // Readers can see the new segment: from here on no message may go to the old one, so failing means ending.
    const facts = currentFacts()
    try {
      seal(writer, lastClockMs)
      writer = segmentWriter(openForWriting(dir, firstSeq), firstSeq)
    } catch (error) {
      throw new Error('the new buffer segment could not be opened', { cause: error })
    }
    sealed.push({ ...facts, bytes: segmentBytes(dir, facts.firstSeq) })
    pipes.restart(bases.map(({ pipeId }) => pipeId))
    begunClockMs = clockMs
    firstReceivedMs = null
    messages = 0
  }

  function currentFacts(): SegmentFacts {
    const known = { begunClockMs, sealedClockMs: null, lastSeq: headSeq, firstReceivedMs }
    return segmentFacts(writer.firstSeq, writer.bytes(), { ...known, pipes: pipes.inSegment() }, lastClockMs)
  }

  return {
    commit,
    roll,
    get headSeq() {
      return headSeq
    },
    missingMessages,
    get lastClockMs() {
      return lastClockMs
    },
    get segmentCount() {
      return sealed.length + 1
    },
    get oldestReceivedMs() {
      return sealed[0]?.firstReceivedMs ?? firstReceivedMs
    },
    current: () => ({ firstSeq: writer.firstSeq, bytes: writer.bytes(), messages, begunClockMs }),
    facts: () => (messages > 0 ? [...sealed, currentFacts()] : [...sealed]),
    drop(firstSeq) {
      const at = sealed.findIndex((segment) => segment.firstSeq === firstSeq)
      assert(at >= 0, 'only a sealed segment is dropped')
      unlinkSegment(dir, firstSeq)
      sealed.splice(at, 1)
    },
    diskBytes: () => sealed.reduce((sum, segment) => sum + segment.bytes, segmentBytes(dir, writer.firstSeq)),
    totals: () => pipes.positions(),
    checkpoint: () => writer.checkpoint(),
    close: () => writer.close(),
  }
}

function firstOfKey(
  message: FramedMessage,
  inFrame: ReadonlyMap<string, KeyedMessage>,
  findKey: FindKey,
): KeyedMessage | null {
  const { pipeId, idempotencyKey, receivedMs } = message
  if (idempotencyKey === null) return null
  return inFrame.get(pipeId + idempotencyKey) ?? findKey(pipeId, idempotencyKey, receivedMs)
}

/** A full disk does not matter here: what cannot be checkpointed stays in the WAL, the clock is estimated. */
function seal(writer: SegmentWriter, lastClockMs: number): void {
  try {
    writer.markSealed(lastClockMs)
  } catch (error) {
    if (!isDiskFull(error)) throw error
    writer.rollback()
  }
  try {
    writer.close()
  } catch (error) {
    if (!isDiskFull(error)) throw error
  }
}
