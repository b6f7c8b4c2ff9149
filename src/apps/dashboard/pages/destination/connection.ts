/**
 * The connection string of a form. It fills the fields of the address; its password goes into the secret field. Only the
 * string without its password is kept to be shown.
 */
import { useState } from 'react'
import { wordsOf } from '../../../../contract/destination-words.ts'
import { ConnectionUrlError } from '../../../../contract/destinations/connection-url.ts'
import { isConnectionString, mayHoldSecret, readConnectionString } from '../../../client/connection-string.ts'
import type { DestinationDraft } from './draft.ts'
import { formFields, readTexts, type Texts } from './fields.ts'

interface Outcome {
  /** The text that the field shows. */
  text: string
  error: string | undefined
  /** The parts that were filled in, or are not used. Undefined: nothing was read. */
  note: string | undefined
  /** The address with which the outcome is valid. */
  of: string
}

export interface Connection {
  text: string
  error: string | undefined
  note: string | undefined
  /** The text can contain a password that was typed and not read yet. */
  isConcealed: boolean
  type: (text: string) => void
  /** Reads what was typed. */
  finish: () => void
  /** Reads a complete string. */
  read: (text: string) => void
  /** Reads a text that was pasted into another field. False: it is no connection string, but a value of that field. */
  readPasted: (key: string, text: string) => boolean
}

export function useConnection(
  draft: DestinationDraft,
  onConfig: (config: Texts) => void,
  isStored: boolean,
): Connection {
  const [typed, setTyped] = useState<string | null>(null)
  const [outcome, setOutcome] = useState<Outcome | null>(null)
  // The string no longer describes the fields once one of them was changed by hand.
  const current = outcome?.of === addressOf(draft, draft.config) ? outcome : null
  const show = (result: Omit<Outcome, 'of'>, config: Texts) => {
    setTyped(null)
    setOutcome({ ...result, of: addressOf(draft, config) })
    if (config !== draft.config) onConfig(config)
  }
  const read = (text: string) => {
    if (text.trim() === '') return show({ text: '', error: undefined, note: undefined }, draft.config)
    try {
      const { config, shown, unused } = readConnectionString(draft.type, text)
      const next = { ...draft.config, ...unsetAddress(draft), ...readTexts(draft.type, config) }
      const notes = [...filledNote(draft, config), ...unusedNotes(unused)]
      show({ text: shown, error: undefined, note: notes.join(' ') }, next)
    } catch (error) {
      if (!(error instanceof ConnectionUrlError)) throw error
      // A text that hides its password cannot be corrected by hand.
      const kept = mayHoldSecret(text) ? '' : text
      show(
        { text: kept, error: `This cannot be read: ${error.message}; ${error.hint}.`, note: undefined },
        draft.config,
      )
    }
  }
  return {
    text: typed ?? current?.text ?? '',
    error: typed === null ? current?.error : undefined,
    note:
      typed === null && current?.note !== undefined ? withNextStep(current.note, draft, isStored) : undefined,
    isConcealed: typed !== null && mayHoldSecret(typed),
    type: setTyped,
    finish: () => {
      if (typed !== null) read(typed)
    },
    read,
    readPasted: (key, text) => {
      if (!isConnectionString(draft.type, text) || isPlainValue(draft, key, text)) return false
      read(text)
      return true
    },
  }
}

/** The fields that the string fills, in one text. */
function addressOf({ type }: DestinationDraft, config: Texts): string {
  const keys = wordsOf(type).url?.field?.keys
  return JSON.stringify(keys === undefined ? config : keys.map((key) => config[key]))
}

/** A field for a URL takes a URL without secrets as it is. */
function isPlainValue({ type }: DestinationDraft, key: string, text: string): boolean {
  if (wordsOf(type).url?.field !== undefined) return false
  try {
    const { config } = readConnectionString(type, text)
    return config[key] === text.trim() && Object.keys(config).length === 1
  } catch {
    return !mayHoldSecret(text)
  }
}

/** A string without a port means the default port, and not that of the string before it. Secrets are kept. */
function unsetAddress({ type, config }: DestinationDraft): Texts {
  const { field } = wordsOf(type).url ?? {}
  const keys = (field?.keys ?? []).filter((key) => wordsOf(type).fields[key]?.secret === undefined)
  return Object.fromEntries(keys.filter((key) => config[key] !== undefined).map((key) => [key, '']))
}

function lacksSecret({ type }: DestinationDraft, config: Texts): boolean {
  const { field } = wordsOf(type).url ?? {}
  return (field?.keys ?? []).some((key) => wordsOf(type).fields[key]?.secret !== undefined && !config[key])
}

/** After a string that could be read, the user should not have to search for what is left to do. */
function withNextStep(note: string, draft: DestinationDraft, isStored: boolean): string {
  const missing = formFields(draft.type).filter(
    ({ key, kind, isNeeded }) => isNeeded && kind !== 'choice' && !draft.config[key]?.trim(),
  )
  const isWithoutSecret = lacksSecret(draft, draft.config) && !isStored
  const labels = missing.filter(({ kind }) => kind !== 'secret').map(({ label }) => label)
  const next = [
    ...(isWithoutSecret ? ['It has no password: enter it below.'] : []),
    ...(labels.length > 0 ? [`Still needed: ${labels.join(', ')}.`] : []),
  ]
  return [...(next.length > 0 ? next : ['Nothing else is needed: Test and save.']), note].join(' ').trim()
}

/** Without a field for the string, the user sees only the field into which it was pasted. */
function filledNote({ type }: DestinationDraft, config: object): string[] {
  const { url, fields } = wordsOf(type)
  if (url?.field !== undefined) return []
  const labels = Object.keys(config).map((key) => fields[key]?.label ?? key)
  return [`Filled in: ${labels.join(', ')}.`]
}

function unusedNotes(unused: readonly string[]): string[] {
  if (unused.length === 0) return []
  const isTls = unused.some((name) => /ssl|tls/i.test(name))
  return [
    `Not used: ${unused.join(', ')}.`,
    ...(isTls ? ['Connections use TLS, except to localhost. Certificates are under Advanced.'] : []),
  ]
}
