/** Drops old segments of a copy of the log: see the table in log-copy.ts. */
import path from 'node:path'
import { fsyncDirectory } from '../../platform/fsync.ts'
import { keyLifetimeMs } from '../key-store.ts'
import type { HighWater } from './high-water.ts'
import { KeyLookup } from './key-lookup.ts'
import { keyedRowsSince } from './keyed-rows.ts'
import { listSegments, unlinkSegment } from './layout.ts'

/** The segments that end before `seq`. The newest one always stays. */
export function dropCopied(
  dir: string,
  seq: number,
  { mark, clockMs, lastSeq }: { mark: HighWater; clockMs: number; lastSeq: number },
): void {
  const names = listSegments(dir)
  const kept = names.findLastIndex(({ firstSeq }) => firstSeq <= seq)
  const dropped = names.slice(0, Math.max(0, kept))
  const oldest = names[kept]
  if (dropped.length === 0 || oldest === undefined) return
  writeKeys(dir, clockMs, lastSeq)
  mark.raiseOldestKept(oldest.firstSeq)
  for (const name of dropped) unlinkSegment(dir, name)
  fsyncDirectory(dir)
}

/** A key counts for its 24 hours even when its message is gone: see idempotency.ts. */
function writeKeys(dir: string, clockMs: number, lastSeq: number): void {
  const lookup = new KeyLookup(path.join(dir, 'idempotency.db'))
  try {
    // The keys of a segment that cannot be read are lost with it.
    for (const used of keyedRowsSince(dir, lookup.throughSeq, clockMs, () => {})) lookup.write(used)
    lookup.flush([], lastSeq, clockMs - keyLifetimeMs)
  } finally {
    lookup.close()
  }
}
