/**
 * What a batch is called wherever it goes: the same range of the same destination has the same name for ever, so a
 * destination can tell a repeated batch from a new one (contract "Delivery": `webhook-id`).
 */
import { v5 } from 'uuid'
import type { StoredMessage } from '../buffer/buffer.ts'
import type { Batch } from '../destinations/driver.ts'
import { bytesOf, recordsOf } from './lane-row.ts'

/** UUID version 5 of `<first>-<last>` in the namespace of the destination's own id. */
export function batchIdentity(destinationId: string, firstSeq: number, lastSeq: number): string {
  return v5(`${firstSeq}-${lastSeq}`, destinationId)
}

/** The messages of a range, as a driver gets them. At least one. */
export function batchOf(destinationId: string, messages: readonly StoredMessage[]): Batch {
  const firstSeq = messages[0]!.seq
  const lastSeq = messages.at(-1)!.seq
  return {
    identity: batchIdentity(destinationId, firstSeq, lastSeq),
    firstSeq,
    lastSeq,
    messages,
    recordCount: recordsOf(messages),
    byteCount: bytesOf(messages),
  }
}
