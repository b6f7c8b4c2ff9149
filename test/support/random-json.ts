/**
 * Bodies by a seed, so that a failure can be repeated: JSON with everything that a scanner of bytes may trip over, now
 * and then with a mistake, and the same after someone damaged the bytes.
 */
import { invalidValues, validValues } from './json-cases.ts'

export type Random = () => number

export function generator(seed: number): Random {
  let state = seed
  // Mulberry32: unlike a linear one, seeds in a row give unlike numbers.
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]!
const below = (random: Random, limit: number): number => Math.floor(random() * limit)

/** Keys that rules watch, others that differ from them by little, and other spellings of the same. */
const keys = [
  ...['id', 'ts', 'amount', 'ingest_ts', 'a_long_key_of_sixteen_characters_', 'größe', 'x', ''],
  ...['ie', 'tss', 'amounT', 'ingest_tS', 'a_long_key_of_sixteen_characters-', 'größé', 'Amount', '\u0000'],
  ...['note', 'a_long_key_of_si', '__proto__', 'toString', '0', '東京', '😀', 'ingest_ip'],
]
const spelledKeys = keys.flatMap((key) => [JSON.stringify(key), JSON.stringify(key), escapedText(key)])
const plainKeys = keys.filter((key) => key !== '\u0000').map((key) => JSON.stringify(key))
/** So often that a record mostly has what is required. */
const usualKeys = ['"id"', '"amount"', '"x"', '""', '"note"']

const spaces = ['', '', '', '', '', ' ', '  ', '\n', '\r\n', '\t', ' \n ', '\r']
const characters = [
  ...'abcdefghijklmnopqrstuvwxyz0123456789 {}[],:/',
  'é',
  '東',
  '😀',
  '\x7f',
  '\ufeff',
  '\u2028',
]
const escapes = [
  '\\"',
  '\\\\',
  '\\/',
  '\\b',
  '\\f',
  '\\n',
  '\\r',
  '\\t',
  '\\u0041',
  '\\ud800',
  '\\uD83D\\uDE00',
]

function escapedText(value: string): string {
  const units = Array.from({ length: value.length }, (_, at) =>
    value.charCodeAt(at).toString(16).padStart(4, '0'),
  )
  return `"${units.map((unit) => `\\u${unit}`).join('')}"`
}

/** How a body is made: how often a mistake is put in, and how often a key is spelled with escapes. */
interface Style {
  random: Random
  mistakes: number
  keys: readonly string[]
  spaces: readonly string[]
}

/** A body of either format, by its seed. About half are valid. */
export function randomBody(seed: number, format: 'json' | 'ndjson'): Buffer {
  const random = generator(seed)
  const style: Style = {
    random,
    mistakes: pick(random, [0, 0, 0.02]),
    keys: pick(random, [spelledKeys, plainKeys, plainKeys, usualKeys]),
    spaces: pick(random, [[''], spaces]),
  }
  const mark = random() < 0.05 ? '\ufeff' : ''
  return Buffer.from(mark + (format === 'json' ? document(style) : lines(style)))
}

function document(style: Style): string {
  const { random } = style
  if (random() < 0.4) return space(style) + record(style) + space(style)
  const count = random() < 0.05 ? below(random, 60) : below(random, 5)
  const elements = Array.from({ length: count }, () => space(style) + record(style) + space(style))
  return `${space(style)}[${elements.join(',')}]${space(style)}`
}

function lines(style: Style): string {
  const { random } = style
  const between = () => pick(random, ['\n', '\n', '\n', '\r\n', '\n\n', ' \n\t', '\n \r\n'])
  const sameLine = { ...style, spaces: random() < 0.1 ? style.spaces : ['', ' ', '\t', '\r'] }
  const count = 1 + (random() < 0.05 ? below(random, 60) : below(random, 5))
  return Array.from({ length: count }, () => record(sameLine) + (random() < 0.9 ? between() : '')).join('')
}

function record(style: Style): string {
  const { random } = style
  if (random() < style.mistakes) return pick(random, invalidValues)
  if (random() < 0.01) return deepRecord(95 + below(random, 10))
  return object(style, 1)
}

/** Few of its levels are objects: it is the depth that is to be too much, and not the keys. */
function deepRecord(depth: number): string {
  const levels = Array.from({ length: depth - 1 }, (_, level) => (level % 9 === 0 ? '{"n":' : '['))
  const ends = levels.map((level) => (level === '[' ? ']' : '}')).reverse()
  return `${levels.join('')}${depth % 2 === 0 ? '[]' : '{}'}${ends.join('')}`
}

function object(style: Style, depth: number): string {
  const { random } = style
  const members = Array.from({ length: size(random, depth) }, () => {
    const colon = random() < style.mistakes ? pick(random, [';', '', '::', ',']) : ':'
    const key =
      random() < style.mistakes ? pick(random, ['a', "'a'", '1', '"a', '"\n"']) : pick(random, style.keys)
    return space(style) + key + space(style) + colon + space(style) + value(style, depth + 1) + space(style)
  })
  return `{${members.join(comma(style)) || space(style)}}`
}

function value(style: Style, depth: number): string {
  const { random } = style
  if (random() < style.mistakes) return pick(random, invalidValues)
  const kind = random()
  if (kind < 0.15) return object(style, depth)
  if (kind < 0.3) {
    const elements = Array.from({ length: size(random, depth) }, () => space(style) + value(style, depth + 1))
    return `[${elements.join(comma(style)) || space(style)}${space(style)}]`
  }
  if (kind < 0.65) return text(random)
  if (kind < 0.85) return number(random)
  return pick(random, validValues)
}

function comma(style: Style): string {
  return style.random() < style.mistakes ? pick(style.random, ['', ',,', ';']) : ','
}

function size(random: Random, depth: number): number {
  return depth > 5 ? 0 : below(random, depth === 1 ? 8 : 4)
}

function space({ random, spaces }: Style): string {
  return pick(random, spaces)
}

/** Texts of every length around the 16 bytes that are read together. */
function text(random: Random): string {
  const length = below(random, 40)
  const escapeShare = pick(random, [0, 0, 0.1])
  const parts = Array.from({ length }, () => pick(random, random() < escapeShare ? escapes : characters))
  return `"${parts.join('')}"`
}

function number(random: Random): string {
  const digits = String(below(random, 10 ** below(random, 10)))
  const fraction = random() < 0.4 ? `.${below(random, 10_000)}` : ''
  const exponent =
    random() < 0.2 ? `${pick(random, ['e', 'E'])}${pick(random, ['', '+', '-'])}${below(random, 400)}` : ''
  return `${random() < 0.2 ? '-' : ''}${digits}${fraction}${exponent}`
}

const tokens = [
  '"',
  '\\',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '\n',
  '\r',
  ' ',
  '\0',
  '\x1f',
  '0',
  '1',
  '-',
  '.',
  'e',
  '\\u',
  'null',
]
  .concat(['true', 'false', '"ts":', '{}', ',{}', '\ufeff', '\\"', '"id"'])
  .map((token) => Buffer.from(token))

/** The body after one to four damages of its bytes. */
export function damaged(body: Buffer, seed: number): Buffer {
  const random = generator(seed)
  let bytes = body
  for (let times = 1 + below(random, pick(random, [1, 4])); times > 0; times--)
    bytes = damagedOnce(bytes, random)
  return bytes
}

function damagedOnce(bytes: Buffer, random: Random): Buffer {
  const at = below(random, bytes.length + 1)
  const to = Math.min(bytes.length, at + below(random, pick(random, [2, 4, 40])))
  const before = bytes.subarray(0, at)
  switch (below(random, 7)) {
    case 0: // cut off
      return before
    case 1: // one bit
      return Buffer.concat([before, flipped(bytes.subarray(at, at + 1), random), bytes.subarray(at + 1)])
    case 2: // a token more
      return Buffer.concat([before, pick(random, tokens), bytes.subarray(at)])
    case 3: // a token instead
      return Buffer.concat([before, pick(random, tokens), bytes.subarray(to)])
    case 4: // a part less
      return Buffer.concat([before, bytes.subarray(to)])
    case 5: // a part twice
      return Buffer.concat([before, bytes.subarray(at, to), bytes.subarray(at)])
    default: // any byte
      return Buffer.concat([before, Buffer.from([below(random, 256)]), bytes.subarray(at + 1)])
  }
}

function flipped(byte: Buffer, random: Random): Buffer {
  return Buffer.from(byte.map((value) => value ^ (1 << below(random, 8))))
}
