/** Reads the messages with an idempotency key from the segments. The lookup of keys is derived from them. */

import path from 'node:path'
import { validate } from 'uuid'
import { isStorageError } from '../../platform/storage-error.ts'
import type { Idempotency } from '../buffer.ts'
import { keyLifetimeMs } from '../key-store.ts'
import { readHighWater } from './high-water.ts'
import type { UsedKey } from './key-lookup.ts'
import { listSegments } from './layout.ts'
import { openReadOnly } from './segment-file.ts'
import { ContradictionError, isDamage, isDiskFull } from './sqlite-errors.ts'

/**
 * Reads one segment at a time; the partial index makes it cost only the rows with a key. The keys of a sealed segment
 * were used before it ended, those of the one being written before `clockMs`. Damaged segments and rows with impossible
 * values are skipped, so that they do not prevent the start; the lookup has their keys unless it was lost too.
 */
export function* keyedRowsSince(
  dir: string,
  afterSeq: number,
  clockMs: number,
  onUnreadable: (firstSeq: number, error: unknown) => void,
): Generator<UsedKey[]> {
  const names = listSegments(dir)
  for (const [index, name] of names.entries()) {
    const next = names[index + 1]
    if (next !== undefined && next.firstSeq <= afterSeq + 1) continue
    let rows: UsedKey[]
    try {
      rows = readKeyed(dir, name, afterSeq, clockMs)
    } catch (error) {
      if (isDiskFull(error) || (isStorageError(error) && !isDamage(error))) throw error
      onUnreadable(name.firstSeq, error)
      continue
    }
    const sound = rows.filter(isPossible)
    if (sound.length < rows.length)
      onUnreadable(
        name.firstSeq,
        new ContradictionError(`${rows.length - sound.length} damaged rows with keys`),
      )
    yield sound
  }
}

/** Bodies are not read, so checksums are not verified here; readers find the damage. */
function isPossible({ pipeId, key, msgId, recordCount, receivedMs, bodyHash }: UsedKey): boolean {
  const isText = (value: unknown) => typeof value === 'string'
  const areNumbers = Number.isSafeInteger(recordCount) && typeof receivedMs === 'number'
  return isText(pipeId) && isText(key) && validate(msgId) && areNumbers && isText(bodyHash)
}

function readKeyed(
  dir: string,
  name: { firstSeq: number; generation: number },
  afterSeq: number,
  clockMs: number,
): UsedKey[] {
  const db = openReadOnly(dir, name)
  try {
    return db
      .prepare(
        `SELECT p.pipe_id AS pipeId, m.idempotency_key AS key, m.seq, m.msg_id AS msgId,
                m.record_count AS recordCount, m.received_ms AS receivedMs, m.body_hash AS bodyHash,
                min(coalesce((SELECT last_clock_ms FROM segment), @clockMs), @clockMs) AS usedClockMs
         FROM message m INDEXED BY message_with_key JOIN pipe p ON p.no = m.pipe
         WHERE m.idempotency_key IS NOT NULL AND m.seq > @afterSeq ORDER BY m.seq`,
      )
      .all({ afterSeq, clockMs }) as UsedKey[]
  } finally {
    db.close()
  }
}

export function usedKeysOf(dir: string, pipeId: string): Map<number, Idempotency> {
  const mark = readHighWater(path.join(dir, 'high-water'))
  // Without a mark their age is unknown.
  const clockMs = typeof mark === 'string' ? 0 : mark.clockMs
  const keys = new Map<number, Idempotency>()
  // A segment that cannot be read has no messages to move either.
  for (const used of keyedRowsSince(dir, 0, clockMs, () => {})) {
    for (const { pipeId: of, seq, key, bodyHash, usedClockMs } of used) {
      const isAlive = clockMs - usedClockMs <= keyLifetimeMs
      if (of === pipeId && isAlive) keys.set(seq, { key, bodyHash })
    }
  }
  return keys
}
