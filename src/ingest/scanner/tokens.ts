/**
 * Strings, numbers and literals. Each function takes the address at which the token, or its named part, starts. It
 * returns the address after it, or `invalid`. The zero byte after the input is not valid in any token, so no function
 * needs the length of the input.
 */
import { backslash, dot, invalid, minus, nine, plus, quote, zero } from './bytes'

/** Scans the string whose opening quote is just before `at`. */
export function afterString(at: usize): usize {
  let end = atSpecial(at)
  while (load<u8>(end) === backslash) {
    end = afterEscape(end)
    if (end === invalid) return invalid
    end = atSpecial(end)
  }
  return load<u8>(end) === quote ? end + 1 : invalid
}

/** Finds the next special byte in a string: a quote, a backslash, or a control character, which is not allowed. */
export function atSpecial(start: usize): usize {
  let at = start
  while (true) {
    const text = v128.load(at)
    const quotes = i8x16.eq(text, i8x16.splat(0x22))
    const backslashes = i8x16.eq(text, i8x16.splat(0x5c))
    const controls = i8x16.lt_u(text, i8x16.splat(0x20))
    const found = i8x16.bitmask(v128.or(v128.or(quotes, backslashes), controls))
    if (found !== 0) return at + <usize>ctz(found)
    at += 16
  }
}

function afterEscape(at: usize): usize {
  switch (load<u8>(at, 1)) {
    case 0x22: // "
    case 0x5c: // \
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return at + 2
    case 0x75: // u
      return isHex(at + 2) && isHex(at + 3) && isHex(at + 4) && isHex(at + 5) ? at + 6 : invalid
    default:
      return invalid
  }
}

function isHex(at: usize): bool {
  const byte = load<u8>(at)
  const letter = byte | 0x20
  return isDigit(byte) || (letter >= 0x61 && letter <= 0x66)
}

/** Scans a number or a literal (true, false, null). */
export function afterScalar(at: usize): usize {
  switch (load<u8>(at)) {
    case 0x74: // t
      return load<u32>(at) === 0x65757274 /* true */ ? at + 4 : invalid
    case 0x66: // f
      return load<u32>(at, 1) === 0x65736c61 /* alse */ ? at + 5 : invalid
    case 0x6e: // n
      return load<u32>(at) === 0x6c6c756e /* null */ ? at + 4 : invalid
    default:
      return afterNumber(at)
  }
}

function afterNumber(start: usize): usize {
  let at = load<u8>(start) === minus ? start + 1 : start
  if (load<u8>(at) === zero) at++
  else at = afterDigits(at)
  if (at !== invalid && load<u8>(at) === dot) at = afterDigits(at + 1)
  if (at !== invalid && (load<u8>(at) | 0x20) === 0x65 /* e */) {
    const sign = load<u8>(at, 1)
    at = afterDigits(sign === minus || sign === plus ? at + 2 : at + 1)
  }
  return at
}

/** Scans at least one digit. */
function afterDigits(start: usize): usize {
  let at = start
  while (isDigit(load<u8>(at))) at++
  return at > start ? at : invalid
}

export function isDigit(byte: u8): bool {
  return byte >= zero && byte <= nine
}
