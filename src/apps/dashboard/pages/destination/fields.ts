/**
 * The config of a destination as form fields, from the table of its type, and the values to send. All values are text
 * in the form. Text that is not a number is sent unchanged: the API reports the error at the field. Pure.
 */
import {
  type DestinationType,
  fieldOf,
  fieldsOf,
  redacted,
  wordsOf,
} from '../../../../contract/destination-words.ts'
import { type ConfigField, offeredOptions } from '../../../../contract/destinations/config-field.ts'

export interface FormField {
  key: string
  label: string
  /** `headers`: `Name: value`, one per line. `lines`: a multi-line text. */
  kind: 'text' | 'lines' | 'secret' | 'number' | 'choice' | 'headers'
  isNeeded: boolean
  hint: string | undefined
  placeholder: string | undefined
  options: readonly (readonly [value: string, label: string])[]
  /** `address`: the connection string determines it. `review`: it changes delivery, and not where records go. */
  place: 'address' | 'connect' | 'advanced' | 'review'
  /** It stands beside another field. */
  isPaired: boolean
}

/** The fields that stand side by side. */
const pairs = [
  ['host', 'port'],
  ['username', 'password'],
  ['access_key', 'secret_key'],
  ['format', 'compression'],
  ['method', 'body_format'],
  ['ack_mode', 'lease_seconds'],
  ['algorithm', 'encoding'],
  ['timestamp_header', 'id_header'],
]
const paired = new Set(pairs.flat())

/** A config field with its key. */
export type ConfigEntry = readonly [key: string, field: ConfigField]

/** The fields of a type. Rarely needed fields come last. */
export function formFields(type: DestinationType): FormField[] {
  const ofUrl = wordsOf(type).url?.field?.keys
  return fieldsOf(type).map((entry) => {
    const field = formField(entry)
    return ofUrl?.includes(field.key) ? { ...field, place: 'address' } : field
  })
}

export function formField([key, field]: ConfigEntry): FormField {
  return {
    key,
    label: field.label,
    kind: controlOf(field),
    isNeeded: field.needed === true,
    hint: hintOf(field),
    placeholder:
      field.example ?? field.usual ?? (field.default === undefined ? undefined : String(field.default)),
    options: optionsOf(field),
    place: placeOf(field),
    isPaired: paired.has(key),
  }
}

function placeOf(field: ConfigField): FormField['place'] {
  if (field.advanced === true) return 'advanced'
  return field.kind === 'boolean' ? 'review' : 'connect'
}

function controlOf(field: ConfigField): FormField['kind'] {
  switch (field.kind) {
    case 'choice':
    case 'boolean':
      return 'choice'
    case 'map':
      return 'headers'
    case 'integer':
    case 'port':
      return 'number'
    case 'text':
      if (field.lines !== undefined) return 'lines'
      return field.secret === 'text' ? 'secret' : 'text'
  }
}

function hintOf(field: ConfigField): string | undefined {
  const hints = [
    field.hint,
    ...(field.kind === 'map' ? ['Name: value, one per line.'] : []),
    ...(field.kind === 'map' && field.secret ? [`${redacted} keeps the stored value.`] : []),
    ...(field.kind === 'text' && field.secret === 'text' && field.lines
      ? ['It is not shown after it was saved; leave it empty to keep it.']
      : []),
  ].filter((hint) => hint !== undefined)
  return hints.length === 0 ? undefined : hints.join(' ')
}

/** The empty value means the default. It is omitted if another option has the same label. */
function optionsOf(field: ConfigField): (readonly [string, string])[] {
  if (field.kind === 'choice') {
    const offered = offeredOptions(field)
    const hasDefault = field.default !== undefined || offered.some(([, label]) => label === field.usual)
    return hasDefault ? offered : [['', `default: ${field.usual}`], ...offered]
  }
  if (field.kind !== 'boolean') return []
  const { true: yes, false: no } = field.options
  if (field.default === undefined)
    return [
      ['', `default: ${field.usual}`],
      ['true', yes],
      ['false', no],
    ]
  return field.default
    ? [
        ['', yes],
        ['false', no],
      ]
    : [
        ['', no],
        ['true', yes],
      ]
}

export type Texts = Readonly<Record<string, string>>

/** The form texts of a stored config. Secrets are never shown: their fields are empty, which keeps them. */
export function textsOf(type: DestinationType, config: Readonly<Record<string, unknown>>): Texts {
  return textsOfEntries(fieldsOf(type), (key) => config[key] ?? aliasValue(type, config, key))
}

export function textsOfEntries(entries: readonly ConfigEntry[], stored: (key: string) => unknown): Texts {
  const texts = entries.map(([key, field]) => {
    const value = stored(key)
    if (field.secret === 'text') return [key, '']
    if (field.kind === 'map') return [key, headerLines(value)]
    const options = optionsOf(field)
    const text = value === undefined || value === null ? '' : String(value)
    // The default, and a value that is accepted but not offered, select the first option.
    return [key, options.some(([name]) => name === text) ? text : (options[0]?.[0] ?? text)]
  })
  return Object.fromEntries(texts)
}

/** The texts for a config that was read from a connection string, secrets included. */
export function readTexts(type: DestinationType, config: Readonly<Record<string, unknown>>): Texts {
  const texts = textsOf(type, config)
  const read = Object.entries(config).map(([key, value]) => {
    const isSecret = fieldOf(type, key)?.secret === 'text'
    return [key, isSecret ? String(value) : (texts[key] ?? String(value))]
  })
  return Object.fromEntries(read)
}

/** True if the field has a value that is not its default. A stored secret counts only when it is typed again. */
export function isChanged({ key, options }: FormField, texts: Texts): boolean {
  const text = texts[key] ?? ''
  return text.trim() !== '' && text !== options[0]?.[0]
}

function aliasValue(type: DestinationType, config: Readonly<Record<string, unknown>>, key: string): unknown {
  const alias = Object.entries(wordsOf(type).fields).find(([, { aliasOf }]) => aliasOf === key)
  return alias && config[alias[0]]
}

function headerLines(value: unknown): string {
  if (typeof value !== 'object' || value === null) return ''
  return Object.entries(value)
    .map(([name, one]) => `${name}: ${one}`)
    .join('\n')
}

function headersOf(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(':')
      return at === -1 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    }),
  )
}

/** The config of a new destination. Empty fields are omitted. */
export function newConfig(entries: readonly ConfigEntry[], texts: Texts): Record<string, unknown> {
  const given = entries.flatMap(([key, field]) => {
    const text = texts[key] ?? ''
    if (text.trim() === '' && !isNeededEmpty(field)) return []
    return [[key, typedValue(field, text)]]
  })
  return Object.fromEntries(given)
}

/** The changes of a stored config. An empty field removes the value, except for secrets, which are kept. */
export function changedConfig(
  entries: readonly ConfigEntry[],
  before: Texts,
  texts: Texts,
): Record<string, unknown> {
  const given = entries.flatMap(([key, field]) => {
    const text = texts[key] ?? ''
    const earlier = before[key] ?? ''
    if (text === earlier) return []
    if (field.secret === 'map') return [[key, mergedHeaders(earlier, text)]]
    if (text.trim() === '') return [[key, field.needed ? '' : null]]
    return [[key, typedValue(field, text)]]
  })
  return Object.fromEntries(given)
}

/** The API merges secret headers one by one. A header that was removed from the text is sent as null. */
function mergedHeaders(before: string, now: string): Record<string, string | null> {
  const wanted = headersOf(now)
  const gone = Object.keys(headersOf(before)).filter((name) => !Object.hasOwn(wanted, name))
  return { ...wanted, ...Object.fromEntries(gone.map((name) => [name, null])) }
}

/** The API requires this field, and an empty text is a valid value. */
function isNeededEmpty({ needed, empty }: ConfigField): boolean {
  return needed === true && empty === 'allowed'
}

function typedValue({ kind, secret }: ConfigField, text: string): unknown {
  if (kind === 'map') return headersOf(text)
  if (kind === 'integer' || kind === 'port') return numberOr(text)
  if (kind === 'boolean') return text === 'true'
  return secret === 'text' ? text : text.trim()
}

/** The text as a number, or the text itself if it is not a number. */
export function numberOr(text: string): number | string {
  const trimmed = text.trim()
  return trimmed === '' || Number.isNaN(Number(trimmed)) ? text : Number(trimmed)
}
