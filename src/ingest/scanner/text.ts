/**
 * The rule of a string: minLength, maxLength, format (0: none), a set of values (0: any), and the check that decides
 * what is not confirmed here: a text with escapes, and any other format.
 */
import { quote } from './bytes'
import { isDate, isDateTime, isUuid } from './formats'
import { entryOf } from './set'
import { afterString, atSpecial } from './tokens'
import { anything, isAddress, nothing, valueChecked } from './values'

export function afterTextOf(rule: usize, start: usize): usize {
  if (rule === nothing) return 0
  const from = start + 1
  const to = atSpecial(from)
  const isPlain = load<u8>(to) === quote
  const end = isPlain ? to + 1 : afterString(to)
  if (rule === anything) return end
  if (!isAddress(rule)) return valueChecked(rule, start, end)
  return isPlain && isConfirmed(rule, from, to) ? end : valueChecked(load<u32>(rule, 16), start, end)
}

function isConfirmed(rule: usize, from: usize, to: usize): bool {
  const set: usize = load<u32>(rule, 12)
  if (set !== 0 && entryOf(set, from, <u32>(to - from)) === 0) return false
  return hasLength(load<u32>(rule), load<u32>(rule, 4), from, to) && hasFormat(load<u32>(rule, 8), from, to)
}

function hasFormat(format: u32, from: usize, to: usize): bool {
  switch (format) {
    case 0:
      return true
    case 1:
      return isDateTime(from, to)
    case 2:
      return to - from === 10 && isDate(from)
    default:
      return isUuid(from, to)
  }
}

/** Lengths are in code points, each of one to four bytes. */
function hasLength(min: u32, max: u32, from: usize, to: usize): bool {
  const bytes = <u32>(to - from)
  if (bytes < min) return false
  if (bytes <= max && (min <= 1 || bytes >> 2 >= min)) return true
  let points: u32 = 0
  for (let at = from; at < to; at++) if ((load<u8>(at) & 0xc0) !== 0x80) points++
  return points >= min && points <= max
}
