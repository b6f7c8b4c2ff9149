/** The open question (answered with y) or text input of the screen, and the action on the answer. */
import { useState } from 'react'
import type { OverviewPipe } from '../../contract/overview.ts'
import type { Client } from '../client/client.ts'
import * as actions from './actions.ts'
import type { KeyPress } from './use-keys.ts'

type Question =
  | { kind: 'skip'; lane: actions.Lane }
  | { kind: 'block'; lane: actions.Lane }
  | { kind: 'pause'; pipe: OverviewPipe }
type TextEntry = { kind: 'filter' } | { kind: 'rewind'; lane: actions.Lane }
export type Entry = Question | TextEntry

export interface EntryView {
  /** Null: there is no question or input. */
  entry: Entry | null
  typed: string
  begin(entry: Entry, typed?: string): void
  onKey(entry: Entry, pressed: KeyPress): void
}

interface EntryDeps {
  client: Client
  act(what: Promise<string>): void
  notify(text: string): void
  setFilter(text: string): void
}

export function useEntry({ client, act, notify, setFilter }: EntryDeps): EntryView {
  const [entry, setEntry] = useState<Entry | null>(null)
  const [typed, setTyped] = useState('')
  const begin = (next: Entry | null, text = '') => {
    setEntry(next)
    setTyped(text)
  }
  const onQuestionKey = (question: Question, pressed: KeyPress) => {
    begin(null)
    if (pressed === 'y' || pressed === 'Y') act(answered(client, question))
    else notify(question.kind === 'skip' ? 'Not skipped.' : 'Not changed.')
  }
  const onTextKey = (current: TextEntry, pressed: KeyPress) => {
    const type = (text: string) => {
      setTyped(text)
      if (current.kind === 'filter') setFilter(text)
    }
    if (pressed === 'escape') {
      if (current.kind === 'filter') setFilter('')
      begin(null)
    } else if (pressed === 'return') {
      if (current.kind === 'rewind' && typed !== '') act(actions.rewind(client, current.lane, typed))
      begin(null)
    } else if (pressed === 'erase') type(typed.slice(0, -1))
    else if (pressed.length === 1) type(typed + pressed)
  }
  return {
    entry,
    typed,
    begin,
    onKey: (current, pressed) =>
      isQuestion(current) ? onQuestionKey(current, pressed) : onTextKey(current, pressed),
  }
}

function isQuestion(entry: Entry): entry is Question {
  return entry.kind !== 'filter' && entry.kind !== 'rewind'
}

/** Executes the action of a confirmed question. */
function answered(client: Client, question: Question): Promise<string> {
  if (question.kind === 'skip') return actions.skip(client, question.lane)
  if (question.kind === 'block') return actions.toggleBlocked(client, question.lane)
  return actions.togglePaused(client, question.pipe)
}
