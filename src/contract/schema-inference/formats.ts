/**
 * The formats that inference proposes. Stricter than the check of a schema: every text that matches here also passes
 * there. `hostname` and `time` are left out, because too many other texts have their form.
 */
export interface InferredFormat {
  name: string
  isMatch(value: string): boolean
}

const datePattern = /^(\d{4})-(\d{2})-(\d{2})$/
const dateTimePattern =
  /^(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)$/
const uuidPattern = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i
const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const emailPattern = new RegExp(
  `^[a-z0-9_%+-]{1,64}(?:\\.[a-z0-9_%+-]{1,64}){0,3}@${label}(?:\\.${label})+$`,
  'i',
)
const uriPattern = /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9._~:/?#@!$&'()*+,;=-]+$/i
const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const ipv4Pattern = new RegExp(`^${octet}(?:\\.${octet}){3}$`)
const longestEmail = 254
const longestUri = 2_000

export const inferredFormats: readonly InferredFormat[] = [
  { name: 'date-time', isMatch: isDateTime },
  { name: 'date', isMatch: isDate },
  { name: 'uuid', isMatch: (value) => value.length === 36 && uuidPattern.test(value) },
  { name: 'ipv4', isMatch: (value) => value.length <= 15 && ipv4Pattern.test(value) },
  { name: 'ipv6', isMatch: isIpv6 },
  { name: 'email', isMatch: (value) => value.length <= longestEmail && emailPattern.test(value) },
  { name: 'uri', isMatch: (value) => value.length <= longestUri && uriPattern.test(value) },
]

function isDateTime(value: string): boolean {
  return value.length <= 40 && dateTimePattern.test(value) && isDate(value.slice(0, 10))
}

/** A day that exists. */
function isDate(value: string): boolean {
  if (value.length !== 10) return false
  const [, year, month, day] = (datePattern.exec(value) ?? []).map(Number)
  if (year === undefined || month === undefined || day === undefined || year < 1) return false
  const time = new Date(0)
  time.setUTCFullYear(year, month - 1, day)
  return time.getUTCMonth() === month - 1 && time.getUTCDate() === day
}

/** Eight groups, or fewer around one `::`. Addresses with a zone or an IPv4 part are left out. */
function isIpv6(value: string): boolean {
  if (value.length > 39 || !value.includes(':') || !/^[0-9a-f:]+$/i.test(value)) return false
  const halves = value.split('::')
  if (halves.length > 2) return false
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')))
  if (!groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return false
  return halves.length === 2 ? groups.length <= 7 : groups.length === 8
}
