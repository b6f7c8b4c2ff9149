/**
 * The formats of strings. Each check takes time linear in the text, whatever it contains: regular expressions are used
 * only on texts of bounded length.
 */
import { isIPv6 } from 'node:net'
import type { SchemaFormat } from '../../contract/schema-words.ts'

export const formatChecks: Readonly<Record<SchemaFormat, (text: string) => boolean>> = {
  'date-time': isDateTime,
  date: isDate,
  time: isTime,
  email: isEmail,
  uuid: (text) => text.length === 36 && uuidPattern.test(text),
  uri: isUri,
  ipv4: (text) => text.length <= 15 && ipv4Pattern.test(text),
  ipv6: (text) => text.length <= 45 && !text.includes('%') && isIPv6(text),
  hostname: isHostname,
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const ipv4Pattern = new RegExp(`^(?:${octet}\\.){3}${octet}$`)
const daysOfMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
/** A longer fraction of a second is not a time of RFC 3339 that any system writes. */
const longestTime = 40

function isDateTime(text: string): boolean {
  const separator = text.charCodeAt(10)
  return (separator === 0x54 || separator === 0x74) && isDateAt(text) && isTime(text.slice(11))
}

function isDate(text: string): boolean {
  return text.length === 10 && isDateAt(text)
}

/** True if the first ten characters are a day that exists. */
function isDateAt(text: string): boolean {
  if (text.charCodeAt(4) !== 0x2d || text.charCodeAt(7) !== 0x2d) return false
  const year = digits(text, 0, 4)
  const month = digits(text, 5, 7)
  const day = digits(text, 8, 10)
  if (year < 0 || month < 1 || month > 12 || day < 1) return false
  const isLeapYear = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return day <= (month === 2 && isLeapYear ? 29 : daysOfMonth[month - 1]!)
}

/** A time with an offset. A leap second is 23:59:60 in UTC. */
function isTime(text: string): boolean {
  if (text.length > longestTime || text.charCodeAt(2) !== 0x3a || text.charCodeAt(5) !== 0x3a) return false
  const hour = digits(text, 0, 2)
  const minute = digits(text, 3, 5)
  const second = digits(text, 6, 8)
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return false
  const zone = zoneMinutes(text, afterFraction(text))
  if (zone === null) return false
  const utc = (hour * 60 + minute - zone + 2 * 1_440) % 1_440
  return second < 60 || utc === 1_439
}

/** The index after the optional fraction of a second; -1 if the fraction has no digits. */
function afterFraction(text: string): number {
  if (text.charCodeAt(8) !== 0x2e) return 8
  let at = 9
  while (isDigit(text.charCodeAt(at))) at++
  return at === 9 ? -1 : at
}

/** The offset from UTC at `at`, which ends the text; null if there is none. */
function zoneMinutes(text: string, at: number): number | null {
  if (at < 0) return null
  const sign = text.charCodeAt(at)
  if (sign === 0x5a || sign === 0x7a) return text.length === at + 1 ? 0 : null
  if ((sign !== 0x2b && sign !== 0x2d) || text.length !== at + 6 || text.charCodeAt(at + 3) !== 0x3a)
    return null
  const hours = digits(text, at + 1, at + 3)
  const minutes = digits(text, at + 4, at + 6)
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return null
  return (sign === 0x2b ? 1 : -1) * (hours * 60 + minutes)
}

/** The number between two indexes; -1 if there is anything but digits. */
function digits(text: string, from: number, to: number): number {
  let value = 0
  for (let at = from; at < to; at++) {
    const code = text.charCodeAt(at)
    if (!isDigit(code)) return -1
    value = value * 10 + code - 0x30
  }
  return value
}

const isDigit = (code: number) => code >= 0x30 && code <= 0x39

const emailLocal = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/i

function isEmail(text: string): boolean {
  const at = text.length > 254 ? -1 : text.lastIndexOf('@')
  if (at < 1 || at > 64) return false
  const host = text.slice(at + 1)
  return emailLocal.test(text.slice(0, at)) && host.includes('.') && isHostname(host)
}

const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i

function isHostname(text: string): boolean {
  return text.length <= 253 && text.split('.').every((one) => one.length <= 63 && label.test(one))
}

const scheme = /^[a-z][a-z0-9+.-]{0,62}:/i
/** The characters of RFC 3986 after the scheme, without the percent sign. */
const uriCharacters = new Set(
  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=".split(''),
)
const isUriCode = Uint8Array.from({ length: 128 }, (_, code) =>
  Number(uriCharacters.has(String.fromCharCode(code))),
)

/** An absolute URI: a scheme, and at least one character after it. */
function isUri(text: string): boolean {
  const found = scheme.exec(text.slice(0, 64))
  if (found === null || text.length === found[0].length) return false
  for (let at = found[0].length; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x25) {
      if (!isHexDigit(text.charCodeAt(at + 1)) || !isHexDigit(text.charCodeAt(at + 2))) return false
      at += 2
    } else if (isUriCode[code] !== 1) return false
  }
  return true
}

function isHexDigit(code: number): boolean {
  return isDigit(code) || (code >= 0x41 && code <= 0x46) || (code >= 0x61 && code <= 0x66)
}
