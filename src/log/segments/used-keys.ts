/**
 * The idempotency keys that are remembered, by the seq of their message: for a move of the buffer, which is open. The
 * look-up knows them by hashes alone, so they are read from the messages.
 */
import path from 'node:path'
import type { Idempotency } from '../buffer.ts'
import { keyLifetimeMs } from '../key-store.ts'
import { readHighWater } from './high-water.ts'
import { keyedRowsSince } from './keyed-rows.ts'

export function usedKeysOf(dir: string, pipeId: string): Map<number, Idempotency> {
  const mark = readHighWater(path.join(dir, 'high-water'))
  // Without a mark nobody knows how old they are.
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
