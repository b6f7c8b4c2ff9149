/**
 * The top-level keys that matter for a pipe: those that enrichment adds, which must not be in a record (`prepareBody`
 * removes them), and those that a destination requires.
 */
import { invalid, quote } from './bytes'
import { keyTableAt } from './layout'
import { atSpecial } from './tokens'

let enrichmentKeys: i32 = 0
let watchedCount: i32 = 0
/** One bit for each length (lowest six bits) of a watched key. It rules out most other keys. */
let watchedLengths: u64 = 0
let allRequired: u64 = 0
/** One bit for each required key of the current record. */
let found: u64 = 0

/** The key table holds the keys of the enrichment first, then the required keys. */
export function watch(enrichment: i32, required: i32): void {
  enrichmentKeys = enrichment
  watchedCount = enrichment + required
  watchedLengths = 0
  for (let index = 0; index < watchedCount; index++) watchedLengths |= lengthBit(keyLength(index))
  allRequired = required === 0 ? 0 : u64.MAX_VALUE >> <u64>(64 - required)
}

export function beginRecord(): void {
  found = 0
}

export function hasAllRequired(): bool {
  return found === allRequired
}

export function isWatching(): bool {
  return watchedCount !== 0
}

/**
 * Returns the address after the key whose opening quote is just before `at`. Invalid when `prepareBody` is needed: for
 * an escaped key, which can be a watched key in another spelling, and for a key of the enrichment.
 */
export function afterWatchedKey(at: usize): usize {
  const end = atSpecial(at)
  if (load<u8>(end) !== quote) return invalid
  const length = <u32>(end - at)
  if ((watchedLengths & lengthBit(length)) !== 0) {
    for (let index = 0; index < watchedCount; index++) {
      if (keyLength(index) !== length || !isSame(at, keyAddress(index), length)) continue
      if (index < enrichmentKeys) return invalid
      found |= (<u64>1) << (<u64>(index - enrichmentKeys))
      break
    }
  }
  return end + 1
}

function keyLength(index: i32): u32 {
  return load<u32>(keyTableAt + ((<usize>index) << 3))
}

function keyAddress(index: i32): usize {
  return load<u32>(keyTableAt + ((<usize>index) << 3), 4)
}

function lengthBit(length: u32): u64 {
  return (<u64>1) << (<u64>(length & 63))
}

export function isSame(one: usize, other: usize, length: u32): bool {
  for (let at: u32 = 0; at < length; at += 16) {
    const equal = i8x16.bitmask(i8x16.eq(v128.load(one + at), v128.load(other + at)))
    const rest = length - at
    const wanted = rest >= 16 ? 0xffff : (1 << rest) - 1
    if ((equal & wanted) !== wanted) return false
  }
  return true
}
