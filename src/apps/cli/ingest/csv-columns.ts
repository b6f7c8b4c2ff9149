/** The columns of a CSV input: their names, types and delimiter. */
import { commandFailure, usageFailure } from '../../client/failure.ts'

export const csvTypes = ['string', 'number', 'boolean', 'json'] as const
export type CsvType = (typeof csvTypes)[number]

export interface CsvOptions {
  /** A byte. Null: it is detected from the header line. */
  delimiter: number | null
  /** The names of the columns if the input has no header line. */
  header: readonly string[] | null
  types: ReadonlyMap<string, CsvType>
  /** The text that means null when it is not in quotation marks. */
  nullText: Buffer | null
}

export interface CsvColumn {
  name: string
  type: CsvType
  /** The bytes before its value in a JSON object: `,"name":`. */
  prefix: Buffer
}

const delimiters = [',', ';', '\t', '|']

/** Throws Failure for names that are empty or occur twice, and for types of columns that do not exist. */
export function columnsOf(names: readonly string[], { types }: CsvOptions): CsvColumn[] {
  const hint =
    'correct the header line, or name the columns with --columns (for a file without a header line)'
  const empty = names.indexOf('')
  if (empty !== -1) throw commandFailure(`column ${empty + 1} of the header has no name`, hint)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw commandFailure(`the header has ${JSON.stringify(twice)} twice`, hint)
  const unknown = [...types.keys()].find((name) => !names.includes(name))
  if (unknown !== undefined) {
    throw usageFailure(
      `--types: there is no column ${JSON.stringify(unknown)}`,
      `the columns are ${names.slice(0, 20).join(', ')}`,
    )
  }
  return names.map((name, index) => ({
    name,
    type: types.get(name) ?? 'string',
    prefix: Buffer.from(`${index === 0 ? '' : ','}${JSON.stringify(name)}:`),
  }))
}

/** The most frequent delimiter of the header line, outside of quotation marks. Null: more input is needed. */
export function delimiterOf(bytes: Buffer, isWhole: boolean): number | null {
  const end = bytes.indexOf('\n')
  if (end === -1 && !isWhole && bytes.length < 64 * 1024) return null
  const line = bytes.toString('latin1', 0, end === -1 ? bytes.length : end).replace(/"[^"]*"/g, '')
  const counts = delimiters.map((one) => line.split(one).length)
  const best = delimiters[counts.indexOf(Math.max(...counts))] ?? ','
  return best.charCodeAt(0)
}

const numberPattern = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/
const booleans: Readonly<Record<string, string>> = {
  true: 'true',
  t: 'true',
  1: 'true',
  false: 'false',
  f: 'false',
  0: 'false',
}

/** The JSON of a value, with its own digits; empty is null. Null: it does not have the type. */
export function jsonOf(type: Exclude<CsvType, 'string'>, text: string): string | null {
  if (text === '') return 'null'
  if (type === 'number') return numberPattern.test(text) ? text : null
  if (type === 'boolean') {
    const key = text.toLowerCase()
    return Object.hasOwn(booleans, key) ? (booleans[key] ?? null) : null
  }
  try {
    JSON.parse(text)
    return text
  } catch {
    return null
  }
}

/** Parses `id:number,paid:boolean`. Throws Failure (usage). */
export function parseTypes(text: string): Map<string, CsvType> {
  const types = new Map<string, CsvType>()
  for (const part of text.split(',')) {
    const at = part.lastIndexOf(':')
    const type = csvTypes.find((one) => one === part.slice(at + 1))
    if (at < 1 || type === undefined) {
      throw usageFailure(
        `--types ${JSON.stringify(part)} is not COLUMN:TYPE`,
        `TYPE is one of ${csvTypes.join(', ')}, e.g. --types id:number,paid:boolean`,
      )
    }
    types.set(part.slice(0, at), type)
  }
  return types
}

/** A delimiter is one ASCII character; `tab` and `\t` are the tab. Throws Failure (usage). */
export function parseDelimiter(text: string): number {
  const character = text === 'tab' || text === '\\t' ? '\t' : text
  if (/^[\t\x20-\x7e]$/.test(character) && !'"\\'.includes(character)) return character.charCodeAt(0)
  throw usageFailure(
    `--delimiter ${JSON.stringify(text)} is not one character`,
    "e.g. --delimiter ';' or tab",
  )
}
