/**
 * The source of webhooks of a pipe as flags, for `pipes create` and `pipes update`. Secrets come from a file, stdin, an
 * environment variable or a prompt, never from a flag.
 */
import type { Command } from 'commander'
import type { PipeUpdate } from '../../contract/pipe.ts'
import type { PipeSource, PipeSourceGiven } from '../../contract/pipe-source.ts'
import {
  isSourceType,
  type SourceType,
  sourceFields,
  sourceTypes,
  sourceWords,
} from '../../contract/source-words.ts'
import { usageFailure } from '../client/failure.ts'
import { numberFrom } from '../client/flag-fields.ts'
import { repeated } from './flag-options.ts'
import { readFileOrStdin } from './input-file.ts'
import { io } from './io.ts'
import { askSecret, canAsk } from './terminal.ts'

export interface SourceOptions {
  source?: string
  sourceSet?: string[]
  sourceSecretFile?: string
  addSourceSecret?: boolean
  removeSourceSecret?: string[]
  sourceHeader?: string[]
}

const secretVariable = 'PIPECTL_SOURCE_SECRET'
const settingVariable = (key: string) => `PIPECTL_SOURCE_${key.toUpperCase()}`

export function addSourceOptions(command: Command, isUpdate: boolean): void {
  command
    .option('--source <type>', `accept webhooks of a provider: ${sourceTypes.join(', ')}; \`none\` for none`)
    .option('--source-set <key=value>', 'a setting of the source; can be repeated', repeated)
    .option(
      '--source-secret-file <file>',
      `file with the secret of the source, - for stdin; otherwise ${secretVariable} or a prompt`,
    )
    .option(
      '--source-header <name>',
      'write this request header of a webhook into its record; can be repeated; `none` for none',
      repeated,
    )
  if (!isUpdate) return
  command
    .option('--add-source-secret', 'add a secret and keep the stored ones, for a rotation')
    .option(
      '--remove-source-secret <id>',
      'remove the secret with this secret_id; `oldest` for the oldest one; can be repeated',
      repeated,
    )
}

export const sourceHelp = `Settings of a source (--source-set): ${sourceTypes
  .flatMap((type) => {
    const keys = sourceFields(type).map(([key, { needed }]) => `${key}${needed ? '*' : ''}`)
    return keys.length === 0 ? [] : [`${type}: ${keys.join(', ')}`]
  })
  .join('; ')}. verify_token is a secret: it comes from ${settingVariable('verify_token')}.`

/** The given fields of the source. `current`: the stored one. Throws Failure (usage). */
export async function sourceFieldsFrom(
  options: SourceOptions,
  current: PipeSource | null,
): Promise<PipeUpdate> {
  const { source, sourceHeader } = options
  const headers =
    sourceHeader === undefined
      ? {}
      : {
          pipe_source_headers: sourceHeader
            .filter((name) => name !== 'none')
            .flatMap((name) => name.split(',')),
        }
  if (source === 'none') return { ...headers, pipe_source: null }
  if (!changesSource(options)) return headers
  return { ...headers, pipe_source: await givenSource(options, current) }
}

/** True if any flag of the source is given. */
export function hasSourceOptions(options: SourceOptions): boolean {
  return options.source !== undefined || options.sourceHeader !== undefined || changesSource(options)
}

function changesSource(options: SourceOptions): boolean {
  const { source, sourceSet, sourceSecretFile, addSourceSecret, removeSourceSecret } = options
  return [source, sourceSet, sourceSecretFile, addSourceSecret, removeSourceSecret].some(
    (one) => one !== undefined,
  )
}

async function givenSource(options: SourceOptions, current: PipeSource | null): Promise<PipeSourceGiven> {
  const type = typeOf(options.source, current)
  const stored = current?.type === type ? current : null
  // Checked before a prompt.
  const settings = settingsOf(type, options.sourceSet ?? [])
  const secrets = await secretsOf(type, options, stored)
  return { type, ...settings, ...(secrets === null ? {} : { secrets }) }
}

function typeOf(named: string | undefined, current: PipeSource | null): SourceType {
  if (named === undefined) {
    if (current !== null) return current.type
    throw usageFailure('the pipe has no source of webhooks', `name one: --source ${sourceTypes[0]}`)
  }
  if (isSourceType(named)) return named
  throw usageFailure(
    `--source ${JSON.stringify(named)}: there is no such source`,
    `use ${sourceTypes.join(', ')}, or none`,
  )
}

function settingsOf(type: SourceType, given: readonly string[]): Record<string, unknown> {
  const settings: Record<string, unknown> = {}
  for (const [key, { secret }] of sourceFields(type)) {
    const value = secret === undefined ? undefined : io().env[settingVariable(key)]
    if (value !== undefined) settings[key] = value
  }
  for (const text of given) {
    const at = text.indexOf('=')
    const [key, value] = at === -1 ? [text, null] : [text.slice(0, at), text.slice(at + 1)]
    settings[key] = settingFrom(type, key, value)
  }
  return settings
}

function settingFrom(type: SourceType, key: string, value: string | null): string | number {
  const fields = new Map(sourceFields(type))
  const field = fields.get(key)
  if (field === undefined || value === null)
    throw usageFailure(
      `--source-set ${JSON.stringify(key)} is not a setting of ${type} with a value`,
      fields.size === 0 ? 'it has none' : `write KEY=VALUE; the keys are ${[...fields.keys()].join(', ')}`,
    )
  if (field.secret !== undefined)
    throw usageFailure(`${key} is a secret`, `put it into the environment variable ${settingVariable(key)}`)
  return field.kind === 'integer' ? numberFrom('source-set', value, 'wholeNumber') : value
}

/** Null: the stored secrets are kept, or the daemon makes the first token. */
async function secretsOf(
  type: SourceType,
  options: SourceOptions,
  stored: PipeSource | null,
): Promise<NonNullable<PipeSourceGiven['secrets']> | null> {
  const { addSourceSecret = false, removeSourceSecret = [], sourceSecretFile } = options
  const before = stored?.secrets ?? []
  const kept = withoutRemoved(before, removeSourceSecret)
  if (sourceWords(type).secrets === 'generated') {
    if (addSourceSecret) return [{ generate: true }, ...kept]
    return removeSourceSecret.length > 0 ? kept : null
  }
  const isGiven = sourceSecretFile !== undefined || io().env[secretVariable] !== undefined
  if (!addSourceSecret && !isGiven && before.length > 0) return removeSourceSecret.length > 0 ? kept : null
  const secret = await readSecret(type, sourceSecretFile)
  return addSourceSecret || removeSourceSecret.length > 0 ? [secret, ...kept] : [secret]
}

function withoutRemoved(secrets: PipeSource['secrets'], removed: readonly string[]): PipeSource['secrets'] {
  const oldest = secrets.toSorted((a, b) => (a.set_ts < b.set_ts ? -1 : 1))[0]
  const ids = removed.map((id) => (id === 'oldest' ? oldest?.secret_id : id))
  for (const [index, id] of ids.entries())
    if (!secrets.some(({ secret_id }) => secret_id === id))
      throw usageFailure(
        `--remove-source-secret ${removed[index]}: the source has no such secret`,
        'pipectl pipes get PIPE shows the secrets with their ids',
      )
  return secrets.filter(({ secret_id }) => !ids.includes(secret_id))
}

async function readSecret(type: SourceType, file: string | undefined): Promise<string> {
  const { secretLabel } = sourceWords(type)
  if (file !== undefined) {
    const named = {
      name: `--source-secret-file ${file}`,
      hint: 'name a file that can be read, or - for stdin',
    }
    return readFileOrStdin(file, named).replace(/\r?\n$/, '')
  }
  const value = io().env[secretVariable]
  if (value !== undefined) return value
  if (canAsk()) return await askSecret(`${secretLabel}: `)
  throw usageFailure(
    `the source needs its secret (${secretLabel}), and without a terminal there is no prompt for it`,
    `give it with --source-secret-file FILE, or in the environment variable ${secretVariable}`,
  )
}
