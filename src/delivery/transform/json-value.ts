/**
 * A record as an expression sees it. Numbers are doubles; an integer that is not exact as a double is a bigint (CEL's
 * int) if it fits into 64 bits, so that ids compare digit by digit. Objects have no prototype, so that no key has a
 * special meaning.
 */

import { hasEscapedKey, readJson } from '../../log/json-reader.ts'

/** An integer with at least 16 digits; all others are exact as doubles. */
const mayBeInexact = /[0-9]{16}/

/** `text` is JSON that was validated when it was accepted. */
export function recordValue(text: string): unknown {
  return mayBeInexact.test(text) || hasEscapedKey(text) ? readJson(text, scalar) : JSON.parse(text)
}

const maxInt = 2n ** 63n - 1n
const minInt = -(2n ** 63n)

function scalar(token: string): unknown {
  const value: unknown = JSON.parse(token)
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?[0-9]{1,19}$/.test(token)) return value
  const exact = BigInt(token)
  return exact >= minInt && exact <= maxInt ? exact : value
}
