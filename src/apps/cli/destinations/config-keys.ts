/** The names of the destination types, and `pipectl help destinations TYPE`. */
import {
  type DestinationType,
  destinationTypes,
  fieldsOf,
  wordsOf,
} from '../../../contract/destination-words.ts'
import { type ConfigField, offeredOptions } from '../../../contract/destinations/config-field.ts'
import { configFlag } from '../../client/flag-fields.ts'
import { flushWords } from './delivery-options.ts'
import { secretPlace, secretVariable } from './secrets.ts'

/** The type names that --type accepts, with their types. */
export const typeNames: ReadonlyMap<string, DestinationType> = new Map(
  destinationTypes.map((type) => [wordsOf(type).kind, type]),
)

/** The complete help of one type: its keys, how each is set, examples, and its guides. */
export function typeHelp(type: DestinationType): string {
  const { kind, summary, url, examples, guides, isPulled } = wordsOf(type)
  const fields = fieldsOf(type)
  const width = Math.max(...fields.map(([key]) => key.length)) + 2
  const rows = (isAdvanced: boolean) =>
    fields
      .filter(([, { advanced }]) => advanced === (isAdvanced ? true : undefined))
      .map(
        ([key, field]) => `  ${(field.needed ? `${key}*` : key).padEnd(width)}${wordsFor(type, key, field)}`,
      )
  return [
    `${kind}: ${summary}`,
    `Examples:\n${examples.map((line) => `  ${line}`).join('\n')}`,
    ...(url === undefined ? [] : [`As a URL (--url): ${url.form}`]),
    `Config keys (* required; --set KEY=VALUE, or destination_config in a file):\n${rows(false).join('\n')}`,
    ...(rows(true).length === 0 ? [] : [`Rarely needed:\n${rows(true).join('\n')}`]),
    ...(isPulled ? [] : [`Default batch limits: ${flushWords(type)}`]),
    `Guides: ${guides.map(([page, title]) => `docs/${page} (${title})`).join(', ')}`,
  ].join('\n\n')
}

function wordsFor(type: DestinationType, key: string, field: ConfigField): string {
  const { hint, label, secret, flag } = field
  const options = offeredOptions(field)
  const fallback = field.usual ?? (field.default === undefined ? undefined : String(field.default))
  const parts = [
    hint ?? `${label}.`,
    ...(options.length === 0 ? [] : [`${options.map(optionText).join('; ')}.`]),
    ...(field.kind === 'integer' ? [`${field.minimum} to ${field.maximum}.`] : []),
    ...(fallback === undefined ? [] : [`Default: ${fallback}.`]),
    ...(flag === undefined ? [] : [`Flag: --${configFlag(key)}.`]),
    ...(secret === undefined ? [] : [`Secret: --secret ${secretPlace(type, key)}${variable(key, secret)}.`]),
    ...(field.kind === 'map' && secret === undefined ? [`Set with --set ${key}.NAME=value.`] : []),
  ]
  return parts.join(' ')
}

const optionText = ([value, label]: [string, string]) => (value === label ? value : `${value}: ${label}`)

function variable(key: string, secret: ConfigField['secret']): string {
  return secret === 'text' ? ` or ${secretVariable(key)}` : ''
}
