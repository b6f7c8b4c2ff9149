/**
 * Determines how much of a segment is delivered when a pipe's low watermark is within it, and the bytes of undelivered
 * messages.
 */
import type Database from 'better-sqlite3'
import { hasPipeIndex, onDisk } from './layout.ts'
import { type LowWatermarks, undelivered } from './retention.ts'
import type { SegmentFacts } from './segment-facts.ts'
import { openReadOnly } from './segment-file.ts'

/** Fills in the delivered part of pipes whose watermark is within the segment, with one lookup per pipe. */
export function lookUpDelivered(dir: string, segment: SegmentFacts, watermarks: LowWatermarks): void {
  let db: Database.Database | null = null
  try {
    for (const [pipeId, facts] of segment.pipes) {
      const throughSeq = watermarks.of(pipeId)
      const isWithin = throughSeq > facts.baseSeq && throughSeq < facts.lastSeq
      if (!isWithin || facts.delivered?.throughSeq === throughSeq) continue
      db ??= openReadOnly(dir, segment)
      facts.delivered = { throughSeq, ...deliveredIn(db, pipeId, throughSeq) }
    }
  } finally {
    db?.close()
  }
}

/** Undelivered bytes on disk per pipe. Messages that were not looked up count as undelivered. */
export function undeliveredBytes(
  segments: readonly SegmentFacts[],
  watermarks: LowWatermarks,
): Map<string, number> {
  const held = new Map<string, number>()
  for (const segment of segments) {
    let allBytes = 0
    for (const facts of segment.pipes.values()) allBytes += onDisk(facts)
    // Distributes the file's real size, including half-filled pages, among its messages.
    const scale = segment.bytes / allBytes
    for (const [pipeId, facts] of segment.pipes) {
      const bytes = onDisk(undelivered(facts, watermarks.of(pipeId))) * scale
      if (bytes > 0) held.set(pipeId, (held.get(pipeId) ?? 0) + bytes)
    }
  }
  return held
}

/**
 * The seqs before a watermark in which a segment without an index is searched. A watermark is the seq of a message of its
 * pipe, except after a rewind, so the first row is found almost always.
 */
const searchedSeqs = 1_000

function deliveredIn(
  db: Database.Database,
  pipeId: string,
  throughSeq: number,
): { messages: number; bytes: number } {
  const row = db
    .prepare(
      `SELECT m.messages - p.base_messages AS messages, m.bytes - p.base_bytes AS bytes
       FROM pipe p JOIN message m ON m.pipe = p.no
       WHERE p.pipe_id = ? AND m.seq <= ? AND m.seq > ? ORDER BY m.seq DESC LIMIT 1`,
    )
    .get(pipeId, throughSeq, hasPipeIndex(db) ? 0 : throughSeq - searchedSeqs)
  return (row as { messages: number; bytes: number } | undefined) ?? { messages: 0, bytes: 0 }
}
