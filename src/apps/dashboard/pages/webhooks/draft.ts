/** The form state of a pipe's source of webhooks, and the change to send. Pure. */
import type { Pipe, PipePatch } from '../../../../contract/pipe.ts'
import { type SourceType, sourceFields, sourceWords } from '../../../../contract/source-words.ts'
import { changedConfig, newConfig, type Texts, textsOfEntries } from '../destination/fields.ts'

export interface SourceDraft {
  type: SourceType
  settings: Texts
  /** Only a new source has it in the form: stored secrets are changed one by one. */
  secret: string
  /** Names, one per line. */
  headers: string
  isRaw: boolean
}

/** These providers put facts into headers that their bodies do not have. */
const usefulHeaders: Partial<Record<SourceType, readonly string[]>> = {
  github: ['x-github-event'],
  shopify: ['x-shopify-topic', 'x-shopify-shop-domain'],
}

/** For a type that is not stored: the form of a new source. */
export function sourceDraft(pipe: Pipe, type: SourceType, url: string): SourceDraft {
  const stored = storedOf(pipe, type)
  const headers = stored === null ? (usefulHeaders[type] ?? []) : []
  const settings = textsOfEntries(sourceFields(type), (key) => stored?.[key])
  return {
    type,
    // Twilio signs the address that it was given.
    settings: stored === null && Object.hasOwn(settings, 'url') ? { ...settings, url } : settings,
    secret: '',
    headers: [...new Set([...pipe.pipe_source_headers, ...headers])].join('\n'),
    isRaw: pipe.pipe_source_raw,
  }
}

/** Only changed fields, and everything of a new source. */
export function sourceChange(pipe: Pipe, draft: SourceDraft): PipePatch {
  const { type, settings, secret, isRaw } = draft
  const fields = sourceFields(type)
  const stored = storedOf(pipe, type)
  const isEntered = sourceWords(type).secrets === 'entered'
  const before = textsOfEntries(fields, (key) => stored?.[key])
  const changed = stored === null ? newConfig(fields, settings) : changedConfig(fields, before, settings)
  const secrets = stored === null && isEntered && secret !== '' ? { secrets: [secret] } : {}
  const headers = headersOf(draft)
  const isSame = headers.join() === pipe.pipe_source_headers.join()
  return {
    ...(stored !== null && Object.keys(changed).length === 0
      ? {}
      : { pipe_source: { type, ...changed, ...secrets } }),
    ...(isSame ? {} : { pipe_source_headers: headers }),
    ...(isRaw === pipe.pipe_source_raw ? {} : { pipe_source_raw: isRaw }),
  }
}

/** As they are stored, so that a form with other spaces or letters is not a changed one. */
function headersOf({ headers }: SourceDraft): string[] {
  return headers
    .split(/[\s,]+/)
    .filter((name) => name !== '')
    .map((name) => name.toLowerCase())
}

function storedOf({ pipe_source: source }: Pipe, type: SourceType) {
  return source?.type === type ? source : null
}
