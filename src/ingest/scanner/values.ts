/** Values that a schema does not describe, and values that are checked outside. Their text is known to be JSON. */
import { backslash, colon, invalid, openBrace, openBracket, quote, space } from './bytes'
import { afterScalar, afterString, atSpecial } from './tokens'

/** In place of the address of a rule. */
export const nothing: usize = 0
export const anything: usize = 1

/** Provided by the importer: whether the value between two addresses matches. */
declare function isMatching(check: u32, start: usize, end: usize): bool

export function isAddress(rule: usize): bool {
  return rule > anything && (rule & 2) === 0
}

/** `end` if check `rule` says that the value between `start` and `end` matches. */
export function valueChecked(rule: usize, start: usize, end: usize): usize {
  return end !== invalid && isMatching(<u32>(rule >> 2), start, end) ? end : invalid
}

export function afterBlank(start: usize): usize {
  let at = start
  // The zero byte after the input ends the loop.
  while (<u8>(load<u8>(at) - 1) < space) at++
  return at
}

/** Invalid if a key in the value has an escape: JSON.parse of Node.js 24 mistakes some of these keys. */
export function afterAny(start: usize): usize {
  const first = load<u8>(start)
  if (first === quote) return afterString(start + 1)
  return first === openBrace || first === openBracket ? afterContainer(start) : afterScalar(start)
}

function afterContainer(start: usize): usize {
  let depth: i32 = 0
  let at = start
  do {
    at = atStructure(at)
    const byte = load<u8>(at)
    if (byte === quote) {
      at = afterKeyOrText(at + 1)
      if (at === invalid) return invalid
    } else {
      depth += byte === openBrace || byte === openBracket ? 1 : -1
      at++
    }
  } while (depth > 0)
  return at
}

/** The next quote, brace or bracket. Bit 5 is the difference between a brace and a bracket. */
function atStructure(start: usize): usize {
  let at = start
  while (true) {
    const text = v128.load(at)
    const folded = v128.or(text, i8x16.splat(0x20))
    const opening = i8x16.eq(folded, i8x16.splat(0x7b))
    const closing = i8x16.eq(folded, i8x16.splat(0x7d))
    const quotes = i8x16.eq(text, i8x16.splat(0x22))
    const bits = i8x16.bitmask(v128.or(v128.or(opening, closing), quotes))
    if (bits !== 0) return at + <usize>ctz(bits)
    at += 16
  }
}

function afterKeyOrText(at: usize): usize {
  const special = atSpecial(at)
  if (load<u8>(special) !== backslash) return special + 1
  const end = afterString(special)
  return end !== invalid && load<u8>(afterBlank(end)) === colon ? invalid : end
}
