/**
 * Whether SQLite may open a segment's WAL. It takes what lies before the first bad frame, silently, and writes over what
 * lies behind it: acknowledged messages that can still be read. Those are salvaged instead.
 */
import { fileBytes, type SegmentName, segmentFile } from './layout.ts'
import { pageBytesOf } from './page-size.ts'
import { closeReadable, openReadable } from './readable-file.ts'
import { readContentIfUsable } from './segment-facts.ts'
import { readWalOverlay } from './wal-overlay.ts'

/** `knownSeq`: the newest seq that anyone has seen. */
export function isWalUsable(dir: string, name: SegmentName, knownSeq: number): boolean {
  const file = `${segmentFile(dir, name)}-wal`
  if (fileBytes(file) === 0) return true
  const segment = openReadable(segmentFile(dir, name))
  const wal = openReadable(file)
  const { commitsBehindDamage } = readWalOverlay(wal, pageBytesOf(segment, wal))
  closeReadable(wal)
  closeReadable(segment)
  if (commitsBehindDamage !== 1) return commitsBehindDamage === 0
  // Damage, or a transaction that a power cut tore: of that nobody has seen anything.
  const lastSeq = readContentIfUsable(dir, name, null)?.lastSeq ?? 0
  return lastSeq >= knownSeq
}
