/**
 * Walks over a body that was scanned, and confirms that its records match a schema. It never confirms a record that does
 * not match; what it does not confirm is checked with JSON.parse. src/ingest/schema/match-table.ts writes the schema
 * into memory. All parts are u32 at fixed offsets, unless noted:
 *
 *   value    literals (bits: true, false, null), then the rules of strings, numbers, objects and arrays
 *   string   see text.ts                       number   see number.ts
 *   object   keys (a set), entry of the first member, number of required members, value of other members,
 *            maxProperties, minProperties (0 or 1), index of the current object
 *   array    minItems, maxItems, number of prefixItems, value of other elements, values of prefixItems
 *   entry    length and address of the key, value, 1 if required, object it was last seen in, entry of the next member
 *
 * In place of an address, 0 matches nothing, 1 everything, and 4n + 2 is check n, which decodes the value (values.ts).
 * The depth of the schema bounds the recursion. Every byte is read a bounded number of times.
 */
import {
  closeBrace,
  closeBracket,
  comma,
  invalid,
  letterF,
  letterT,
  nine,
  openBrace,
  openBracket,
  quote,
} from './bytes'
import { inputAt } from './layout'
import { afterNumberOf } from './number'
import { entryOf, isKeyAt } from './set'
import { afterTextOf } from './text'
import { atSpecial } from './tokens'
import { afterAny, afterBlank, anything, isAddress, nothing, valueChecked } from './values'

/** True: all records of the body of `scan` match. */
export function confirms(root: usize, skipped: i32, length: i32): bool {
  const end = inputAt + <usize>length
  let at = afterBlank(inputAt + <usize>skipped)
  if (load<u8>(at) === openBracket) at = afterBlank(at + 1)
  while (at < end && load<u8>(at) !== closeBracket) {
    at = afterMatching(root, at, end)
    if (at === invalid) return false
    at = afterElement(at)
  }
  return true
}

/** The address of the next element, or of the end of the list. Records of NDJSON have no commas. */
function afterElement(end: usize): usize {
  const at = afterBlank(end)
  return load<u8>(at) === comma ? afterBlank(at + 1) : at
}

/** Returns the address after the value that starts at `at`, or invalid. */
function afterMatching(value: usize, at: usize, end: usize): usize {
  if (!isAddress(value)) return afterUnwalked(value, at)
  const first = load<u8>(at)
  if (first === quote) return afterTextOf(load<u32>(value, 4), at)
  if (first === openBrace) return afterObject(load<u32>(value, 12), at, end)
  if (first === openBracket) return afterArray(load<u32>(value, 16), at, end)
  if (first <= nine) return afterNumberOf(load<u32>(value, 8), at)
  if (first === letterF) return (load<u32>(value) & 2) !== 0 ? at + 5 : invalid
  const bit: u32 = first === letterT ? 1 : 4
  return (load<u32>(value) & bit) !== 0 ? at + 4 : invalid
}

function afterUnwalked(value: usize, at: usize): usize {
  if (value === nothing) return invalid
  const end = afterAny(at)
  return value === anything ? end : valueChecked(value, at, end)
}

function afterArray(rule: usize, start: usize, end: usize): usize {
  if (!isAddress(rule)) return afterUnwalked(rule, start)
  const prefixed = load<u32>(rule, 8)
  let count: u32 = 0
  let at = afterBlank(start + 1)
  while (load<u8>(at) !== closeBracket) {
    const value = count < prefixed ? load<u32>(rule + ((<usize>count) << 2), 16) : load<u32>(rule, 12)
    at = afterMatching(value, at, end)
    if (at === invalid) return invalid
    count++
    at = afterElement(at)
  }
  return count >= load<u32>(rule) && count <= load<u32>(rule, 4) ? at + 1 : invalid
}

function afterObject(rule: usize, start: usize, end: usize): usize {
  if (!isAddress(rule)) return afterUnwalked(rule, start)
  const first = afterBlank(start + 1)
  if (load<u8>(first) !== closeBrace) return afterMembers(rule, first, end)
  return load<u32>(rule, 8) === 0 && load<u32>(rule, 20) === 0 ? first + 1 : invalid
}

/** `start` is the first key. A repeated key counts once as a required one, and each time for maxProperties. */
function afterMembers(rule: usize, start: usize, end: usize): usize {
  const object = load<u32>(rule, 24) + 1
  store<u32>(rule, object, 24)
  let missing = load<u32>(rule, 8)
  let left = load<u32>(rule, 16)
  let next = rule + 4
  let at = start
  while (left-- !== 0) {
    const entry = entryOfKey(rule, next, at + 1, end)
    if (keyEnd === invalid) return invalid
    let value: usize = load<u32>(rule, 12)
    if (entry !== 0) {
      next = entry + 20
      value = load<u32>(entry, 8)
      missing -= firstSeen(entry, object)
    }
    at = afterMatching(value, afterBlank(afterBlank(keyEnd) + 1), end)
    if (at === invalid) return invalid
    at = afterBlank(at)
    if (load<u8>(at) !== comma) return missing === 0 ? at + 1 : invalid
    at = afterBlank(at + 1)
  }
  return invalid
}

/** The address after the closing quote of the last key, or invalid: it has escapes. */
let keyEnd: usize = invalid

/**
 * Returns the entry of the key at `at`, or 0, and sets `keyEnd`. Most records have their keys in the same order, so each
 * member remembers, in `next`, the one that followed it last.
 */
function entryOfKey(rule: usize, next: usize, at: usize, end: usize): usize {
  const expected: usize = load<u32>(next)
  if (expected !== 0 && isKeyAt(expected, at, end)) {
    keyEnd = at + <usize>load<u32>(expected) + 1
    return expected
  }
  const special = atSpecial(at)
  keyEnd = load<u8>(special) === quote ? special + 1 : invalid
  const entry = entryOf(load<u32>(rule), at, <u32>(special - at))
  if (entry !== 0) store<u32>(next, <u32>entry)
  return entry
}

/** 1 if the member is required and not a repeated key. */
function firstSeen(entry: usize, object: u32): u32 {
  if (load<u32>(entry, 12) === 0 || load<u32>(entry, 16) === object) return 0
  store<u32>(entry, object, 16)
  return 1
}
