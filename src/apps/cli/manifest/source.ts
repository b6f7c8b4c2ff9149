/** The source of webhooks of a pipe in `pipectl.yaml`. Its secrets are references to variables, read when they are sent. */
import { isDeepStrictEqual } from 'node:util'
import { redacted } from '../../../contract/destination-words.ts'
import { isObject } from '../../../contract/is-object.ts'
import type { PipeSource, PipeSourceGiven } from '../../../contract/pipe-source.ts'
import { isSourceType, type SourceType, sourceFields, sourceWords } from '../../../contract/source-words.ts'
import type { YamlFile, YamlPath } from './yaml-file.ts'

export interface DeclaredSource {
  type: SourceType
  /** Settings that are no secrets. */
  settings: Record<string, unknown>
  /** The keys of the secret settings that the file mentions. */
  secretKeys: string[]
  /** The number of secrets in the file. 0: it mentions none. */
  secretCount: number
  /** The source to send, with these secrets. Throws Failure, which names the variable, if one is not set. */
  given(sent: { secrets: boolean; keys: readonly string[] }): PipeSourceGiven
}

/** A valid value of every secret, in place of a reference. */
const placeholder = 'whsec_AAAAAAAAAAAAAAAA'

/** Returns the source of a pipe, and the value with which the schema checks the file. `path` is that of `pipe_source`. */
export function declaredSource(
  file: YamlFile,
  path: YamlPath,
  value: unknown,
): { source: DeclaredSource | null; checked: unknown } {
  if (!isObject(value)) return { source: null, checked: value }
  const { type: given, secrets, ...fields } = value
  const texts = Array.isArray(secrets) ? secrets : []
  const isText = texts.every((one) => typeof one === 'string')
  if (typeof given !== 'string' || !isSourceType(given) || !isText) return { source: null, checked: value }
  const type = given
  const secretKeys = sourceFields(type).flatMap(([key, { secret }]) =>
    secret !== undefined && typeof fields[key] === 'string' ? [key] : [],
  )
  const isSecret = (key: string) => secretKeys.includes(key)
  const settings = Object.fromEntries(Object.entries(fields).filter(([key]) => !isSecret(key)))
  const checked = {
    ...value,
    ...Object.fromEntries(secretKeys.map((key) => [key, placeholder])),
    ...(Array.isArray(secrets) ? { secrets: texts.map(() => placeholder) } : {}),
  }
  const source: DeclaredSource = {
    type,
    settings,
    secretKeys,
    secretCount: texts.length,
    given: (sent) => ({
      type,
      ...settings,
      ...Object.fromEntries(sent.keys.map((key) => [key, file.expand([...path, key], String(fields[key]))])),
      ...(sent.secrets && texts.length > 0
        ? { secrets: texts.map((text, index) => file.expand([...path, 'secrets', index], String(text))) }
        : {}),
    }),
  }
  return { source, checked }
}

/** The change of a stored source, with words for the plan; null: there is none. Stored secrets cannot be compared. */
export function sourceChange(
  declared: DeclaredSource,
  stored: PipeSource | null,
  updateSecrets: boolean,
): { given: PipeSourceGiven; words: string } | null {
  const same = stored?.type === declared.type ? stored : null
  const changed = Object.entries(declared.settings)
    .filter(([key, value]) => !isDeepStrictEqual(value ?? undefined, same?.[key]))
    .map(([key]) => key)
  const keys = declared.secretKeys.filter((key) => updateSecrets || same?.[key] !== redacted)
  const { secretCount } = declared
  const secrets = secretCount > 0 && (updateSecrets || same?.secrets.length !== secretCount)
  if (same !== null && changed.length === 0 && keys.length === 0 && !secrets) return null
  const parts = [
    ...(same === null ? [`pipe_source ${declared.type}`] : []),
    ...[...changed, ...keys].map((key) => `pipe_source.${key} set`),
    ...(secrets && same !== null ? ['pipe_source.secrets sent again'] : []),
  ]
  return { given: declared.given({ secrets, keys }), words: parts.join(', ') }
}

/** The source for `export`. The tokens of a secret URL are left out: only their hash is stored. */
export function exportedSource(
  { type, secrets, ...settings }: PipeSource,
  reference: (...keys: string[]) => string,
): Record<string, unknown> {
  const shown = Object.entries(settings).map(([key, value]) => [
    key,
    value === redacted ? reference('source', key) : value,
  ])
  const isGenerated = sourceWords(type).secrets === 'generated'
  return {
    type,
    ...Object.fromEntries(shown),
    ...(isGenerated || secrets.length === 0
      ? {}
      : { secrets: secrets.map(() => reference('source', 'secret')) }),
  }
}
