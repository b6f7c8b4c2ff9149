/** Messages of the stream whose checksum fails are put aside on this node's disk, as those of a data directory are. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import type { Logger } from '../../platform/log.ts'

export interface DamagedMessage {
  seq: number
  pipeId: string
  msgId: string
  receivedMs: number
  recordCount: number
  /** Null: the frame around it cannot be read, and `body` is the frame. */
  crc: number | null
  body: Uint8Array
}

/** Once per message, `<seq>-<msg_id>.body` with the bytes as they were found and a `.json` that says what they are. */
export function putAside(dir: string, message: DamagedMessage, log: Logger): void {
  const { seq, pipeId, msgId, receivedMs, recordCount, crc, body } = message
  const fields = { pipe_id: pipeId, msg_id: msgId, stream_seq: seq, records: recordCount }
  // A damaged id may be anything: only what a UUID has goes into a file name.
  const name = `${String(seq).padStart(20, '0')}-${msgId.replace(/[^0-9a-f-]/gi, '_').slice(0, 36)}`
  const description = path.join(dir, `${name}.json`)
  try {
    if (existsSync(description)) return
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    writeFileSync(path.join(dir, `${name}.body`), body, { mode: 0o600 })
    const facts = {
      pipe_id: pipeId,
      stream_seq: seq,
      msg_id: msgId,
      received_ms: receivedMs,
      records_count: recordCount,
      crc32: crc,
      body_crc32: crc32(body),
      body_bytes: body.length,
    }
    // Last, so that its presence means both are there.
    writeFileSync(description, `${JSON.stringify(facts, null, 2)}\n`, { mode: 0o600 })
    log.error(fields, 'buffer.message_damaged')
  } catch (error) {
    // It is reported and not delivered all the same; its bytes stay in the stream for as long as that keeps them.
    log.error({ ...fields, err: error }, 'buffer.quarantine_failed')
  }
}
