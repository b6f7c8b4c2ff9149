/** The slots in the bucket as one chain: the newest one, and reading them in order. */
import type { Bucket } from './bucket.ts'
import { patiently } from './patience.ts'
import { decodeSlot, type Slot, SlotError, slotName, slotOfName, slotPrefix } from './slot.ts'

/** Larger than any slot: a slot holds one message of the largest size, or `slotBytes` of rows. */
export const maxSlotBytes = 64 * 1024 * 1024

/** A slot as it was read. */
export interface FoundSlot {
  slot: Slot
  /** The SHA-256 of the sealed bytes, which the next slot names. */
  checksum: string
}

/** Null: there is none. Throws BucketError, SlotError. */
export async function readSlot(
  bucket: Bucket,
  key: Buffer,
  number: number,
  attempts = 1,
): Promise<FoundSlot | null> {
  const name = slotName(number)
  const body = await patiently(() => bucket.get(name, maxSlotBytes), attempts)
  return body === null ? null : decodeSlot(key, name, body)
}

/** The newest slot. Null: the prefix has none. Throws BucketError, SlotError. */
export async function newestSlot(bucket: Bucket, key: Buffer): Promise<FoundSlot | null> {
  for (;;) {
    let newest: number | null = null
    for await (const { name } of bucket.list(slotPrefix)) newest = slotOfName(name) ?? newest
    if (newest === null) return null
    const found = await readSlot(bucket, key, newest)
    // It was removed after it was listed, so there are newer ones.
    if (found !== null) return found
  }
}

const readAhead = 8

/**
 * The slots from `first` on, in order. Up to `readAhead` are requested at a time. At the end of the chain it asks `follow` whether
 * to look again; without it, it ends there. Verifies that each slot names the one before it. Throws BucketError, and SlotError
 * if a slot is damaged or is not of this chain.
 */
export async function* readChain(
  bucket: Bucket,
  key: Buffer,
  { first, attempts }: { first: number; attempts: number },
  follow: ((last: FoundSlot) => Promise<boolean>) | null = null,
): AsyncGenerator<FoundSlot> {
  const requested = new Map<number, Promise<FoundSlot | null>>()
  let previous: FoundSlot | null = null
  let ahead = readAhead
  for (let number = first; ; ) {
    for (let next = number; next < number + ahead; next += 1) {
      if (requested.has(next)) continue
      const slot = readSlot(bucket, key, next, attempts)
      // It is awaited in its turn, if its turn comes.
      slot.catch(() => {})
      requested.set(next, slot)
    }
    const found = await requested.get(number)!
    requested.delete(number)
    if (found === null) {
      if (follow === null || previous === null || !(await follow(previous))) return
      // At the end of the chain there is at most one new slot at a time.
      requested.clear()
      ahead = 1
      continue
    }
    const { header } = found.slot
    if (previous !== null && header.previous !== previous.checksum)
      throw new SlotError('damaged', `${slotName(number)}: does not continue the slot before it`)
    previous = found
    yield found
    number += 1
  }
}
