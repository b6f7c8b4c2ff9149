/** The common spellings of formats. A text that is not confirmed can be valid: src/ingest/schema/formats.ts decides. */
import { colon, dot, minus, plus, zero } from './bytes'
import { isDigit } from './tokens'

/** `2026-01-31T12:00:00Z`, with an optional fraction of the second, and an offset in place of `Z`. No leap seconds. */
export function isDateTime(from: usize, to: usize): bool {
  const length = to - from
  if (length < 20 || length > 40 || (load<u8>(from, 10) | 0x20) !== 0x74 /* t */) return false
  return isDate(from) && isTime(from + 11, to)
}

function isTime(from: usize, to: usize): bool {
  if (load<u8>(from, 2) !== colon || load<u8>(from, 5) !== colon) return false
  if (twoDigits(from) > 23 || twoDigits(from + 3) > 59 || twoDigits(from + 6) > 59) return false
  let at = from + 8
  if (load<u8>(at) === dot) {
    const fraction = ++at
    while (isDigit(load<u8>(at))) at++
    if (at === fraction) return false
  }
  const sign = load<u8>(at)
  if ((sign | 0x20) === 0x7a /* z */) return at + 1 === to
  if ((sign !== plus && sign !== minus) || at + 6 !== to || load<u8>(at, 3) !== colon) return false
  return twoDigits(at + 1) <= 23 && twoDigits(at + 4) <= 59
}

/** `2026-01-31`, a day that exists. */
export function isDate(at: usize): bool {
  if (load<u8>(at, 4) !== minus || load<u8>(at, 7) !== minus) return false
  const century = twoDigits(at)
  const years = twoDigits(at + 2)
  const month = twoDigits(at + 5)
  const day = twoDigits(at + 8)
  if (century > 99 || years > 99 || month - 1 > 11 || day - 1 > 30) return false
  if (day <= 28) return true
  if (month === 2) return day === 29 && isLeapYear(century * 100 + years)
  // April, June, September and November.
  return day <= 30 || ((0b101001010000 >> month) & 1) === 0
}

function isLeapYear(year: u32): bool {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

/** More than 99 if they are no digits. */
function twoDigits(at: usize): u32 {
  const tens = load<u8>(at)
  const ones = load<u8>(at, 1)
  return isDigit(tens) && isDigit(ones) ? <u32>(tens - zero) * 10 + <u32>(ones - zero) : u32.MAX_VALUE
}

export function isUuid(from: usize, to: usize): bool {
  if (to - from !== 36) return false
  for (let index: usize = 0; index < 36; index++) {
    const byte = load<u8>(from + index)
    const letter = byte | 0x20
    if (index === 8 || index === 13 || index === 18 || index === 23) {
      if (byte !== minus) return false
    } else if (!isDigit(byte) && (letter < 0x61 || letter > 0x66)) return false
  }
  return true
}
