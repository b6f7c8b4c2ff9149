/**
 * Scans one record: whether its text is valid JSON, where it ends, and its top-level members.
 *
 *                        ┌──────────── , ────────────┐
 *                        ▼                           │
 *   {  or  [  ──▶  key :  (object)  ──▶  value ──▶  after a value ──▶ } or ]: the container is a value that ended
 *                                          │  ▲
 *                                 { or [ ──┘  └── its first member; empty: it ended
 *
 * The containers that are open around the current value are a stack of the bytes that will close them. There is no
 * recursion: the depth is a number, and its limit holds before anything is stored.
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
/** Keys of the record at hand, those of nested objects included. */
let keys: i32 = 0

/** `oneLine`: a newline ends the record, also an unfinished one. */
export function limitRecords(keysPerRecord: i32, depth: i32, oneLine: bool): void {
  maxKeys = keysPerRecord
  maxDepth = depth
  isLine = oneLine
}

/** Whether the record that was scanned last has no members. */
export function isEmptyRecord(): bool {
  return keys === 0
}

/** After the closing brace of the record whose opening brace is at `start`; or invalid. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the loop of the diagram above, without a call per value
export function afterRecord(start: usize): usize {
  beginRecord()
  keys = 0
  let at = start
  let depth: i32 = 0
  let closer: u8 = 0
  while (true) {
    // At a value.
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
    // After a value: the next one of its container, or the container's own end, and so on outwards.
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

/** `"key" :` up to where the value begins. */
function afterKey(start: usize, depth: i32): usize {
  if (load<u8>(start) !== quote || ++keys > maxKeys) return invalid
  let at = depth === 1 && isWatching() ? afterWatchedKey(start + 1) : afterString(start + 1)
  if (at === invalid) return invalid
  at = afterSpace(at)
  return load<u8>(at) === colon ? afterSpace(at + 1) : invalid
}

/**
 * Newlines become spaces where they stand: a stored record is one line, and JSON has newlines in white space only. In a
 * record that is a line they are left, for no token begins with one.
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
