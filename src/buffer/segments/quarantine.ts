/**
 * Where damaged messages are put: `<seq>-<msg_id>.body` with the bytes as they were found, and a `.json` beside it
 * that says what they are. Reading the same message again puts it there only once.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import type { StoredRow } from './segment-reader.ts'

/** True when it was put aside now, false when it was there. */
export function quarantine(dir: string, pipeId: string, row: StoredRow): boolean {
  const seq = String(row.seq).padStart(20, '0')
  // A damaged row's id may be anything: only what a UUID has goes into a file name.
  const base = path.join(dir, `${seq}-${row.msgId.replace(/[^0-9a-f-]/gi, '_').slice(0, 36)}`)
  const description = `${base}.json`
  if (existsSync(description)) return false
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  writeFileSync(`${base}.body`, row.body, { mode: 0o600 })
  const facts = {
    pipe_id: pipeId,
    stream_seq: row.seq,
    msg_id: row.msgId,
    received_ts: new Date(row.receivedMs).toISOString(),
    records_count: row.recordCount,
    crc32_expected: row.crc,
    crc32_found: crc32(row.body),
    body_bytes: row.body.length,
  }
  // Last, so that its presence means both are there.
  writeFileSync(description, `${JSON.stringify(facts, null, 2)}\n`, { mode: 0o600 })
  return true
}
