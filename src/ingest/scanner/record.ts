/**
 * Scans one record: whether its text is valid JSON, where it ends, and its top-level members.
 *
 *                        ┌──────────── , ────────────┐
 *                        ▼                           │
 *   {  or  [  ──▶  key :  (object)  ──▶  value ──▶  after a value ──▶ } or ]: the container is a value that ended
 *                                          │  ▲
 *                                 { or [ ──┘  └── its first member; empty: it ended
 *
 * Open containers are a stack of their closing bytes. There is no recursion: the depth is a number that is checked
 * before anything is written.
 */
import {
  carriageReturn,
  closeBrace,
  closeBracket,
  colon,
  comma,
  invalid,
  lineFeed,
  openBrace,
  openBracket,
  quote,
  space,
  tab,
} from './bytes'
import { afterWatchedKey, beginRecord, hasAllRequired, isWatching } from './keys'
import { openContainersAt } from './layout'
import { afterScalar, afterString } from './tokens'

let maxKeys: i32 = 0
let maxDepth: i32 = 0
let isLine: bool = false
/** Keys of the current record, including nested objects. */
let keys: i32 = 0

/** All values of the body, including the records. */
let values: i32 = 0

export function resetValueCount(): void {
  values = 0
}

export function valueCount(): u32 {
  return values
}

/** `oneLine`: a newline ends the record, even an incomplete one. */
export function limitRecords(keysPerRecord: i32, depth: i32, oneLine: bool): void {
  maxKeys = keysPerRecord
  maxDepth = depth
  isLine = oneLine
}

/** True when the last scanned record has no members. */
export function isEmptyRecord(): bool {
  return keys === 0
}

/** Returns the address after the closing brace of the record that starts at `start`, or invalid. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the loop of the diagram above, without a call per value
export function afterRecord(start: usize): usize {
  beginRecord()
  keys = 0
  let at = start
  let depth: i32 = 0
  let closer: u8 = 0
  while (true) {
    // Now at a value.
    values++
    const first = load<u8>(at)
    if (first === quote) {
      at = afterString(at + 1)
      if (at === invalid) return invalid
    } else if (first === openBrace || first === openBracket) {
      if (depth === maxDepth) return invalid
      store<u8>(openContainersAt + <usize>depth, closer)
      depth++
      closer = first === openBrace ? closeBrace : closeBracket
      at = afterSpace(at + 1)
      if (load<u8>(at) !== closer) {
        if (closer === closeBrace) at = afterKey(at, depth)
        if (at === invalid) return invalid
        continue
      }
    } else {
      at = afterScalar(at)
      if (at === invalid) return invalid
    }
    // Now after a value: continues with the next value of its container, or with the end of the container, and so on
    // outwards.
    while (true) {
      at = afterSpace(at)
      const next = load<u8>(at)
      if (next === comma) {
        at = afterSpace(at + 1)
        if (closer === closeBrace) at = afterKey(at, depth)
        if (at === invalid) return invalid
        break
      }
      if (next !== closer) return invalid
      at++
      depth--
      if (depth === 0) return hasAllRequired() ? at : invalid
      closer = load<u8>(openContainersAt + <usize>depth)
    }
  }
}

/** Scans `"key" :` and returns the start of the value. */
function afterKey(start: usize, depth: i32): usize {
  if (load<u8>(start) !== quote || ++keys > maxKeys) return invalid
  let at = depth === 1 && isWatching() ? afterWatchedKey(start + 1) : afterString(start + 1)
  if (at === invalid) return invalid
  at = afterSpace(at)
  return load<u8>(at) === colon ? afterSpace(at + 1) : invalid
}

/**
 * Replaces newlines by spaces in place: a stored record is one line, and JSON has raw newlines only in white space. In
 * NDJSON a newline ends the record and is kept.
 */
export function afterSpace(start: usize): usize {
  let at = start
  while (true) {
    const byte = load<u8>(at)
    if (byte > space) return at
    if (byte === carriageReturn || (byte === lineFeed && !isLine)) store<u8>(at, space)
    else if (byte !== space && byte !== tab) return at
    at++
  }
}
