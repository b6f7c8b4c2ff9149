/**
 * The source of a pipe as it is stored: one JSON text in the pipe's row. Secrets are sealed with the pipe, the setting
 * or the id of the secret; of the tokens of a secret URL only the hash is stored.
 *
 *   {"type":"github","settings":{},"secrets":[{"secret_id":"…","set_ms":1732800000000,"value":"v1.…"}]}
 */
import { createHash, randomUUID } from 'node:crypto'
import { redacted } from '../contract/destination-words.ts'
import { resolvedConfig } from '../contract/destinations/config-field.ts'
import type { PipeSource } from '../contract/pipe-source.ts'
import { type OpenedSource, type SourceType, sourceWords } from '../contract/source-words.ts'
import { type Sealer, UnsealError } from './secrets.ts'
import { isoTime } from './tables.ts'

interface StoredSecret {
  secret_id: string
  set_ms: number
  /** A sealed text; of `secret_url` the hash of the token. */
  value: string
}

interface StoredSource {
  type: SourceType
  settings: Record<string, unknown>
  secrets: StoredSecret[]
}

/** A source to store. The secrets of the stored source that it names are kept. */
export interface SourceChange {
  type: SourceType
  /** Every setting that has a value. A secret setting that is `[redacted]` keeps its stored value. */
  settings: Record<string, unknown>
  secrets: readonly ({ secretId: string } | { value: string })[]
}

/** Returns the text to store. `stored`: the present text of the same pipe. */
export function sealedSource(
  sealer: Sealer,
  change: SourceChange,
  { pipeId, stored, nowMs }: { pipeId: string; stored: string | null; nowMs: number },
): string {
  const before = stored === null ? null : parse(stored)
  const { type } = change
  const settings = mapSecretSettings(type, change.settings, (value, key) =>
    value === redacted ? String(before?.settings[key] ?? '') : sealer.seal(value, place(pipeId, key)),
  )
  const secrets = change.secrets.flatMap((one): StoredSecret[] => {
    if ('secretId' in one) return before?.secrets.filter(({ secret_id }) => secret_id === one.secretId) ?? []
    const secret_id = randomUUID()
    const value =
      type === 'secret_url' ? hashOfToken(one.value) : sealer.seal(one.value, place(pipeId, secret_id))
    return [{ secret_id, set_ms: nowMs, value }]
  })
  return JSON.stringify({ type, settings, secrets } satisfies StoredSource)
}

/** The source as responses show it. */
export function shownSource(stored: string | null): PipeSource | null {
  if (stored === null) return null
  const { type, settings, secrets } = parse(stored)
  return {
    type,
    secrets: secrets.map(({ secret_id, set_ms }) => ({ secret_id, set_ts: isoTime(set_ms) })),
    ...mapSecretSettings(type, settings, () => redacted),
  }
}

/**
 * The source with its secrets in the clear. `unreadable`: it has none, or the stored ones cannot be unsealed, because
 * the file was altered or its key is lost. One such pipe must not stop the others.
 */
export function openedSource(
  sealer: Sealer,
  pipeId: string,
  stored: string | null,
): OpenedSource | 'unreadable' | null {
  if (stored === null) return null
  try {
    return unsealedSource(sealer, pipeId, stored)
  } catch (error) {
    if (error instanceof UnsealError) return 'unreadable'
    throw error
  }
}

function unsealedSource(sealer: Sealer, pipeId: string, stored: string): OpenedSource | 'unreadable' {
  const { type, settings, secrets } = openAll(sealer, pipeId, parse(stored))
  if (secrets.length === 0) return 'unreadable'
  const opened = {
    type,
    settings: resolvedConfig(sourceWords(type).fields, settings),
    secrets: secrets.map(({ value }) => value),
  }
  // The settings were validated for their type before they were stored.
  return opened as unknown as OpenedSource
}

/** Seals all secrets with another key. Throws UnsealError. */
export function resealedSource(from: Sealer, to: Sealer, pipeId: string, stored: string): string {
  const opened = openAll(from, pipeId, parse(stored))
  const settings = mapSecretSettings(opened.type, opened.settings, (value, key) =>
    to.seal(value, place(pipeId, key)),
  )
  const secrets = opened.secrets.map((secret) =>
    opened.type === 'secret_url'
      ? secret
      : { ...secret, value: to.seal(secret.value, place(pipeId, secret.secret_id)) },
  )
  return JSON.stringify({ ...opened, settings, secrets })
}

/**
 * For a lost sealing key: the source without the secrets that cannot be unsealed. Null: all of them can. The hashes of
 * tokens are kept.
 */
export function withoutLostSecrets(sealer: Sealer, pipeId: string, stored: string): string | null {
  const source = parse(stored)
  const isLost = (value: string, of: string) => {
    try {
      sealer.open(value, place(pipeId, of))
      return false
    } catch (error) {
      if (error instanceof UnsealError) return true
      throw error
    }
  }
  const lostKeys = new Set<string>()
  mapSecretSettings(source.type, source.settings, (value, key) => {
    if (isLost(value, key)) lostKeys.add(key)
    return value
  })
  const secrets =
    source.type === 'secret_url'
      ? source.secrets
      : source.secrets.filter(({ value, secret_id }) => !isLost(value, secret_id))
  if (lostKeys.size === 0 && secrets.length === source.secrets.length) return null
  const settings = Object.fromEntries(Object.entries(source.settings).filter(([key]) => !lostKeys.has(key)))
  return JSON.stringify({ ...source, settings, secrets })
}

/** Names the secrets that differ, for the audit log. */
export function changedSourceSecrets(before: string | null, after: string | null): string[] {
  const [was, is] = [secretTexts(before), secretTexts(after)]
  return [...new Set([...was.keys(), ...is.keys()])].filter((name) => was.get(name) !== is.get(name))
}

function secretTexts(stored: string | null): Map<string, string> {
  const texts = new Map<string, string>()
  if (stored === null) return texts
  const { type, settings, secrets } = parse(stored)
  texts.set('pipe_source.secrets', secrets.map(({ secret_id }) => secret_id).join())
  mapSecretSettings(type, settings, (value, key) => {
    texts.set(`pipe_source.${key}`, value)
    return value
  })
  return texts
}

/** The hash under which a token is stored and compared. */
export function hashOfToken(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

function openAll(sealer: Sealer, pipeId: string, { type, settings, secrets }: StoredSource): StoredSource {
  return {
    type,
    settings: mapSecretSettings(type, settings, (value, key) => sealer.open(value, place(pipeId, key))),
    secrets: secrets.map((secret) =>
      type === 'secret_url'
        ? secret
        : { ...secret, value: sealer.open(secret.value, place(pipeId, secret.secret_id)) },
    ),
  }
}

function mapSecretSettings(
  type: SourceType,
  settings: Readonly<Record<string, unknown>>,
  replace: (value: string, key: string) => string,
): Record<string, unknown> {
  const { fields } = sourceWords(type)
  return Object.fromEntries(
    Object.entries(settings).map(([key, value]) => {
      const isSecret = Object.hasOwn(fields, key) && fields[key]?.secret === 'text'
      return [key, isSecret && typeof value === 'string' ? replace(value, key) : value]
    }),
  )
}

function parse(stored: string): StoredSource {
  return JSON.parse(stored)
}

function place(pipeId: string, name: string): string {
  return `pipe ${pipeId} source ${name}`
}
