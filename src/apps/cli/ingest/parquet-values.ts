/**
 * Values of Parquet columns as JSON text. hyparquet would convert decimals to floats and timestamps to milliseconds, so
 * it reads columns without their annotations (`withoutAnnotations`), and the text is made here from the integers and
 * bytes of the file. Every digit stays.
 *
 *   integer, decimal    its digits, as a JSON number        date, time, timestamp   ISO 8601 text
 *   text, enum, UUID    text                                bytes                   base64
 *   JSON                the JSON itself                     list, map, struct       array, object, object
 *   float, double       shortest digits that are the same value; NaN and infinities as text
 */
import type { SchemaElement, SchemaTree } from 'hyparquet'

type Text = (value: unknown) => string

const groupAnnotations = new Set(['MAP', 'MAP_KEY_VALUE'])

/** The schema with which hyparquet returns lists as arrays, and everything else as it is stored. */
export function withoutAnnotations(schema: readonly SchemaElement[]): SchemaElement[] {
  return schema.map((element) => {
    const { converted_type, logical_type, ...rest } = element
    const isLeaf = element.type !== undefined
    if (isLeaf ? isText(element) : !groupAnnotations.has(converted_type ?? '')) return element
    return rest as SchemaElement
  })
}

/** They are decoded by hyparquet, once for each word of a dictionary. */
function isText({ converted_type, logical_type }: SchemaElement): boolean {
  return converted_type === 'UTF8' || logical_type?.type === 'STRING'
}

/** Returns the function that makes JSON of the values of a column. */
export function textOf(node: SchemaTree): Text {
  const text = node.children.length === 0 ? leafText(node.element) : groupText(node)
  const one: Text = (value) => (value === null || value === undefined ? 'null' : text(value))
  if (node.element.repetition_type !== 'REPEATED') return one
  return arrayText(one)
}

function arrayText(one: Text): Text {
  return (values) => (Array.isArray(values) ? `[${values.map(one).join(',')}]` : 'null')
}

function groupText(node: SchemaTree): Text {
  const { element, children } = node
  const [child] = children
  const isList = element.converted_type === 'LIST' || element.logical_type?.type === 'LIST'
  if (
    isList &&
    children.length === 1 &&
    child !== undefined &&
    child.element.repetition_type === 'REPEATED'
  ) {
    return listText(child)
  }
  const isMap = groupAnnotations.has(element.converted_type ?? '') || element.logical_type?.type === 'MAP'
  const [key, value] = child?.children ?? []
  if (isMap && child !== undefined && key !== undefined && child.element.repetition_type === 'REPEATED') {
    return mapText(child.element.name, key, value)
  }
  const members = children.map((one) => ({
    name: one.element.name,
    prefix: `${JSON.stringify(one.element.name)}:`,
    text: textOf(one),
  }))
  return (struct) =>
    `{${members.map(({ name, prefix, text }) => prefix + text((struct as Record<string, unknown>)[name])).join(',')}}`
}

/** hyparquet returns the elements themselves, unless the repeated group has several members. */
function listText(repeated: SchemaTree): Text {
  const [inner] = repeated.children
  if (repeated.children.length === 0) return textOf(repeated)
  if (repeated.children.length === 1 && inner !== undefined) return arrayText(textOf(inner))
  const elements = textOf(repeated)
  const { name } = repeated.element
  return (value) => elements(Array.isArray(value) ? value : (value as Record<string, unknown>)[name])
}

/** An object in the order of the file. The keys that are not text are written as text. */
function mapText(name: string, key: SchemaTree, value: SchemaTree | undefined): Text {
  const [keyText, valueText] = [textOf(key), value === undefined ? () => 'null' : textOf(value)]
  const [keyName, valueName] = [key.element.name, value?.element.name ?? '']
  const entry = (one: Record<string, unknown>) => {
    const text = keyText(one[keyName])
    return `${text.startsWith('"') ? text : JSON.stringify(text)}:${valueText(one[valueName])}`
  }
  return (map) => {
    const entries = (map as Record<string, unknown>)[name]
    return Array.isArray(entries) ? `{${entries.map(entry).join(',')}}` : '{}'
  }
}

function leafText(element: SchemaElement): Text {
  if (isText(element)) return (value) => JSON.stringify(String(value))
  const annotated = annotatedText(element)
  if (annotated !== null) return annotated
  switch (element.type) {
    case 'FLOAT':
      return (value) => floatText(shortestFloat(Number(value)))
    case 'DOUBLE':
      return (value) => floatText(Number(value))
    case 'INT96':
      // The form of timestamps of old writers. The reader passes nanoseconds.
      return (value) => timestamp(BigInt(value as bigint), 9, true)
    case 'BYTE_ARRAY':
    case 'FIXED_LEN_BYTE_ARRAY':
      return (value) => `"${bufferOf(value).toString('base64')}"`
    default:
      return String
  }
}

/** The text of a value with an annotation. Null: it has none that changes its text. */
function annotatedText(element: SchemaElement): Text | null {
  const { type, logical_type: logical, converted_type: converted, scale = 0 } = element
  const isBytes = type === 'BYTE_ARRAY' || type === 'FIXED_LEN_BYTE_ARRAY'
  if (converted === 'DECIMAL' || logical?.type === 'DECIMAL') {
    const digits = logical?.type === 'DECIMAL' ? logical.scale : scale
    return (value) => decimal(isBytes ? signedOf(bufferOf(value)) : BigInt(value as bigint), digits)
  }
  if (converted === 'DATE' || logical?.type === 'DATE') return (value) => date(Number(value))
  if (logical?.type === 'TIMESTAMP') {
    const digits = fractionDigits[logical.unit]
    return (value) => timestamp(BigInt(value as bigint), digits, logical.isAdjustedToUTC)
  }
  if (logical?.type === 'TIME') {
    const digits = fractionDigits[logical.unit]
    return (value) => `"${timeOfDay(BigInt(value as bigint), digits)}"`
  }
  if (logical?.type === 'UUID') return (value) => uuid(bufferOf(value))
  if (logical?.type === 'FLOAT16') return (value) => floatText(float16(bufferOf(value)))
  return convertedText(converted)
}

function convertedText(converted: SchemaElement['converted_type']): Text | null {
  switch (converted) {
    case 'TIMESTAMP_MILLIS':
      return (value) => timestamp(BigInt(value as bigint), 3, true)
    case 'TIMESTAMP_MICROS':
      return (value) => timestamp(BigInt(value as bigint), 6, true)
    case 'TIME_MILLIS':
      return (value) => `"${timeOfDay(BigInt(value as bigint), 3)}"`
    case 'TIME_MICROS':
      return (value) => `"${timeOfDay(BigInt(value as bigint), 6)}"`
    case 'UINT_64':
      return (value) => String(BigInt.asUintN(64, BigInt(value as bigint)))
    case 'UINT_32':
      return (value) => String(Number(value) >>> 0)
    case 'ENUM':
      return (value) => JSON.stringify(bufferOf(value).toString('utf8'))
    case 'JSON':
      return (value) => jsonText(bufferOf(value).toString('utf8'))
    case 'INTERVAL':
      return (value) => interval(bufferOf(value))
    default:
      return null
  }
}

const fractionDigits = { MILLIS: 3, MICROS: 6, NANOS: 9 } as const

function bufferOf(value: unknown): Buffer {
  if (!(value instanceof Uint8Array)) throw new Error('a value is not of the type of its column')
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
}

/** Two's complement, big-endian. */
function signedOf(bytes: Buffer): bigint {
  return bytes.length === 0 ? 0n : BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString('hex')}`))
}

function decimal(unscaled: bigint, scale: number): string {
  if (scale <= 0) return String(unscaled * 10n ** BigInt(-scale))
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0')
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

function floatText(value: number): string {
  if (!Number.isFinite(value)) return `"${value}"`
  return Object.is(value, -0) ? '-0.0' : String(value)
}

/** The number with the fewest digits that is the same 32-bit float: 0.1 and not 0.10000000149011612. */
function shortestFloat(value: number): number {
  if (!Number.isFinite(value)) return value
  for (let digits = 6; digits < 9; digits += 1) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return short
  }
  return Number(value.toPrecision(9))
}

function float16(bytes: Buffer): number {
  const bits = bytes.readUInt16LE(0)
  const sign = bits >> 15 ? -1 : 1
  const [exponent, fraction] = [(bits >> 10) & 0x1f, bits & 0x3ff]
  if (exponent === 0) return sign * 2 ** -14 * (fraction / 1024)
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024)
}

const dayMs = 86_400_000

/** Days that JavaScript's calendar does not have are written as their number. */
function date(days: number): string {
  const text = isoOf(days * dayMs)
  return text === null ? String(days) : `"${text.split('T')[0]}"`
}

function timestamp(units: bigint, digits: number, isUtc: boolean): string {
  const perSecond = 10n ** BigInt(digits)
  const fraction = ((units % perSecond) + perSecond) % perSecond
  const seconds = (units - fraction) / perSecond
  const text = isoOf(Number(seconds) * 1000)
  if (text === null) return String(units)
  return `"${text.slice(0, text.indexOf('.'))}.${String(fraction).padStart(digits, '0')}${isUtc ? 'Z' : ''}"`
}

function isoOf(ms: number): string | null {
  const instant = new Date(ms)
  return Number.isNaN(instant.getTime()) ? null : instant.toISOString()
}

function timeOfDay(units: bigint, digits: number): string {
  const perSecond = 10n ** BigInt(digits)
  const seconds = Number(units / perSecond)
  const two = (value: number) => String(value).padStart(2, '0')
  const clock = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map(two).join(':')
  return `${clock}.${String(units % perSecond).padStart(digits, '0')}`
}

function uuid(bytes: Buffer): string {
  const hex = bytes.toString('hex')
  return `"${[hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')}"`
}

function interval(bytes: Buffer): string {
  const [months, days, ms] = [bytes.readUInt32LE(0), bytes.readUInt32LE(4), bytes.readUInt32LE(8)]
  return `"P${months}M${days}DT${ms / 1000}S"`
}

/** Text that is not JSON is sent as text. */
function jsonText(text: string): string {
  try {
    JSON.parse(text)
    return text
  } catch {
    return JSON.stringify(text)
  }
}
