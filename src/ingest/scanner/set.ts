/**
 * A set of texts: the shift of the hash, then one u32 per slot, the address of an entry or 0. An entry begins with the
 * length of its text and the address of its bytes. src/ingest/schema/match-set.ts writes it: a text is in the slot of
 * its hash or in one of the few slots after it.
 */
import { quote } from './bytes'
import { isSame } from './keys'

/** The entry of the text, or 0. */
export function entryOf(set: usize, at: usize, length: u32): usize {
  let slot = set + 4 + ((<usize>(hashOf(at, length) >> load<u32>(set))) << 2)
  while (true) {
    const entry: usize = load<u32>(slot)
    if (entry === 0) return 0
    if (load<u32>(entry) === length && isSame(at, load<u32>(entry, 4), length)) return entry
    slot += 4
  }
}

/** Whether the key that starts at `at` is that of the entry. `end` is the end of the input. */
export function isKeyAt(entry: usize, at: usize, end: usize): bool {
  const length = load<u32>(entry)
  const keyEnd = at + <usize>length
  return keyEnd < end && load<u8>(keyEnd) === quote && isSame(at, load<u32>(entry, 4), length)
}

/** The first four bytes, the last four and four in the middle, and the length. */
function hashOf(at: usize, length: u32): u32 {
  let hash: u32 = length * 0x9e3779b1
  if (length < 4) {
    for (let index: u32 = 0; index < length; index++) hash = (hash ^ load<u8>(at + index)) * 0x85ebca6b
  } else {
    hash = (hash ^ load<u32>(at)) * 0x85ebca6b
    hash = (hash ^ (hash >> 15) ^ load<u32>(at + ((length >> 1) - 2))) * 0xc2b2ae35
    hash = (hash ^ (hash >> 13) ^ load<u32>(at + length - 4)) * 0x85ebca6b
  }
  hash ^= hash >> 16
  return hash * 0xc2b2ae35
}
