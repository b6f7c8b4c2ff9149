/**
 * The keys that a pipe looks for at the top level of each record: those that enrichment adds, which must not be there
 * (`prepareBody` removes them), and those that a destination requires.
 */
import { invalid, quote } from './bytes'
import { keyTableAt } from './layout'
import { atSpecial } from './tokens'

let enrichmentKeys: i32 = 0
let watchedCount: i32 = 0
/** A bit for each length (the lowest six bits of it) that a watched key has: few other keys get past it. */
let watchedLengths: u64 = 0
let allRequired: u64 = 0
/** A bit for each required key that the current record has. */
let found: u64 = 0

/** The key table holds the enrichment's keys, then the required ones. */
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
 * After the key whose opening quote stands before `at`. Invalid also where `prepareBody` is needed: for an escaped
 * key, which may be a watched one in another spelling, and for one that enrichment adds.
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

function isSame(one: usize, other: usize, length: u32): bool {
  for (let at: u32 = 0; at < length; at += 16) {
    const equal = i8x16.bitmask(i8x16.eq(v128.load(one + at), v128.load(other + at)))
    const rest = length - at
    const wanted = rest >= 16 ? 0xffff : (1 << rest) - 1
    if ((equal & wanted) !== wanted) return false
  }
  return true
}
