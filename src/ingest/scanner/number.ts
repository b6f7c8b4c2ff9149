/**
 * The rule of a number: 1 if it must be whole, the check that decides what is not confirmed here, the number of allowed
 * values (0: any); then as f64 the minimum, the maximum, the exclusive minimum and maximum, the divisor (0: none), and
 * the allowed values.
 */
import { dot, minus, zero } from './bytes'
import { afterScalar, isDigit } from './tokens'
import { anything, isAddress, nothing, valueChecked } from './values'

/** All numbers of so many digits are exact, so that one division by a power of ten rounds as JSON.parse does. */
const exactDigits: usize = 15

export function afterNumberOf(rule: usize, start: usize): usize {
  if (rule === nothing) return 0
  if (rule === anything) return afterScalar(start)
  if (!isAddress(rule)) return valueChecked(rule, start, afterScalar(start))
  const first = load<u8>(start) === minus ? start + 1 : start
  let digits: u64 = 0
  let at = first
  while (isDigit(load<u8>(at))) digits = digits * 10 + (load<u8>(at++) - zero)
  let scale: f64 = 1
  if (load<u8>(at) === dot) {
    at++
    while (isDigit(load<u8>(at))) {
      digits = digits * 10 + (load<u8>(at++) - zero)
      scale *= 10
    }
  }
  const isExact = at - first <= exactDigits && (load<u8>(at) | 0x20) !== 0x65 /* e */
  const value = (first === start ? <f64>digits : -(<f64>digits)) / scale
  if (isExact && isConfirmed(rule, value)) return at
  return valueChecked(load<u32>(rule, 4), start, afterScalar(start))
}

function isConfirmed(rule: usize, value: f64): bool {
  if (load<u32>(rule) !== 0 && trunc(value) !== value) return false
  if (!(value >= load<f64>(rule, 12) && value <= load<f64>(rule, 20))) return false
  if (!(value > load<f64>(rule, 28) && value < load<f64>(rule, 36))) return false
  const divisor = load<f64>(rule, 44)
  if (divisor !== 0 && (trunc(value) !== value || <i64>value % <i64>divisor !== 0)) return false
  const allowed: usize = load<u32>(rule, 8)
  if (allowed === 0) return true
  for (let index: usize = 0; index < allowed; index++)
    if (load<f64>(rule + (index << 3), 52) === value) return true
  return false
}
