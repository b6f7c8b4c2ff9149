/** Quarantines messages of the stream whose checksum fails, on this node's disk, like those of a data directory. */
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
  /** Null: the frame around the message cannot be read, and `body` is the frame. */
  crc: number | null
  body: Uint8Array
}

/** Writes `<seq>-<msg_id>.body` with the bytes as they were read, and a `.json` that describes them. Once per message. */
export function putAside(dir: string, message: DamagedMessage, log: Logger): void {
  const { seq, pipeId, msgId, receivedMs, recordCount, crc, body } = message
  const fields = { pipe_id: pipeId, msg_id: msgId, stream_seq: seq, records: recordCount }
  // The id of a damaged message can be anything: only characters of a UUID go into the file name.
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
    // Written last: when it exists, both files exist.
    writeFileSync(description, `${JSON.stringify(facts, null, 2)}\n`, { mode: 0o600 })
    log.error(fields, 'buffer.message_damaged')
  } catch (error) {
    // The message is still reported and not delivered; its bytes stay in the stream as long as it keeps them.
    log.error({ ...fields, err: error }, 'buffer.quarantine_failed')
  }
}
