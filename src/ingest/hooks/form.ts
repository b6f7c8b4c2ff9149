/**
 * Bodies of `application/x-www-form-urlencoded` (https://url.spec.whatwg.org/#urlencoded-parsing). Unlike
 * URLSearchParams, it rejects bytes that are not UTF-8, because replacing them would change a record in silence.
 */
import { isUtf8 } from 'node:buffer'
import { resourceLimits } from '../../contract/resource-limits.ts'

const ampersand = 0x26
const equals = 0x3d
const percent = 0x25
const plus = 0x2b
const space = 0x20

/**
 * The fields in order, as often as they were sent. Null: more bytes or parts than the limits, or not UTF-8. Empty parts
 * count too, because they take time.
 */
export function formFields(body: Uint8Array): [name: string, value: string][] | null {
  if (body.length > resourceLimits.formBytes) return null
  const fields: [string, string][] = []
  let parts = 0
  for (let start = 0; start < body.length; ) {
    const found = body.indexOf(ampersand, start)
    const end = found === -1 ? body.length : found
    if (parts++ === resourceLimits.formFields) return null
    if (end > start) {
      const field = fieldIn(body.subarray(start, end))
      if (field === null) return null
      fields.push(field)
    }
    start = end + 1
  }
  return fields
}

function fieldIn(text: Uint8Array): [string, string] | null {
  const found = text.indexOf(equals)
  const nameEnd = found === -1 ? text.length : found
  const name = decoded(text.subarray(0, nameEnd))
  const value = decoded(text.subarray(nameEnd + 1))
  return isUtf8(name) && isUtf8(value) ? [name.toString('utf8'), value.toString('utf8')] : null
}

/** Percent-decodes. A percent sign without two hexadecimal digits stays as it is. */
export function decoded(text: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(text.length)
  let length = 0
  for (let at = 0; at < text.length; at++) {
    const byte = text[at]!
    const code = byte === percent ? hexDigit(text[at + 1]) * 16 + hexDigit(text[at + 2]) : Number.NaN
    if (Number.isNaN(code)) bytes[length++] = byte === plus ? space : byte
    else {
      bytes[length++] = code
      at += 2
    }
  }
  return bytes.subarray(0, length)
}

/** NaN: not a hexadecimal digit. */
function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return Number.NaN
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : Number.NaN
}
