/**
 * What a batch is called wherever it goes: the same range of the same destination has the same name for ever, so a
 * destination can tell a repeated batch from a new one (contract "Delivery": `webhook-id`).
 */
import { v5 } from 'uuid'

/** UUID version 5 of `<first>-<last>` in the namespace of the destination's own id. */
export function batchIdentity(destinationId: string, firstSeq: number, lastSeq: number): string {
  return v5(`${firstSeq}-${lastSeq}`, destinationId)
}
