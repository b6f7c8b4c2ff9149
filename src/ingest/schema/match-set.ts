/** The set of texts of src/ingest/scanner/set.ts, which searches it. */
import type { TableWriter } from './table-writer.ts'

/** A search compares at most so many slots, whatever texts the schema has. */
const maxProbes = 16
/** Slots per text. */
const spread = 4

/** Each entry is a text and the address of its words. Returns the address, or null: too many texts share a hash. */
export function writeSet(table: TableWriter, entries: readonly (readonly [Buffer, number])[]): number | null {
  const bits = Math.max(1, Math.ceil(Math.log2(spread * entries.length + 1)))
  const shift = 32 - bits
  // The last slot is empty and ends every search.
  const slots = new Array<number>(2 ** bits + maxProbes + 1).fill(0)
  for (const [text, entry] of entries) {
    const first = hashOf(text) >>> shift
    const slot = slots.indexOf(0, first)
    if (slot - first >= maxProbes) return null
    slots[slot] = entry
  }
  return table.words([shift, ...slots])
}

/** The same as in src/ingest/scanner/set.ts. */
function hashOf(text: Buffer): number {
  const { length } = text
  let hash = Math.imul(length, 0x9e3779b1)
  if (length < 4) {
    for (const byte of text) hash = Math.imul(hash ^ byte, 0x85ebca6b)
  } else {
    hash = Math.imul(hash ^ text.readInt32LE(0), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 15) ^ text.readInt32LE((length >> 1) - 2), 0xc2b2ae35)
    hash = Math.imul(hash ^ (hash >>> 13) ^ text.readInt32LE(length - 4), 0x85ebca6b)
  }
  return Math.imul(hash ^ (hash >>> 16), 0xc2b2ae35) >>> 0
}
