/** The last line: a question, what is typed, the outcome of the last action, or the keys. */
import { Text } from 'ink'
import type { OverviewPipe } from '../../contract/overview.ts'
import * as actions from './actions.ts'
import { keyLine, parkedKeyLine } from './keys-help.tsx'
import type { Entry } from './use-entry.ts'

export function Footer(props: {
  entry: Entry | null
  typed: string
  notice: string
  filter: string
  readOnly: boolean
  canSkip: boolean
  width: number
}) {
  const { entry, typed, notice, filter, width } = props
  const filtered = filter === '' ? '' : `[${filter}]  `
  const keys = () => `${filtered}${keyLine(props.readOnly, width - filtered.length, props.canSkip)}`
  return (
    <Text wrap="truncate" dimColor={entry === null && notice === ''} bold={entry !== null}>
      {entry === null ? notice || keys() : entryLine(entry, typed)}
    </Text>
  )
}

function entryLine(entry: Entry, typed: string): string {
  switch (entry.kind) {
    case 'skip':
      return `Skip? [y/N]  Parks the blocking message of ${actions.laneName(entry.lane)}; the lane continues.`
    case 'block':
      return `Block ${actions.laneName(entry.lane)}? [y/N]  Deliveries stop; the backlog is kept.`
    case 'pause':
      return pauseQuestion(entry.pipe)
    case 'rewind':
      return `Rewind ${actions.laneName(entry.lane)} to (earliest, stream_seq or time): ${typed}▏`
    case 'filter':
      return `Filter: ${typed}▏`
  }
}

export function ParkedFooter(props: {
  question: string | null
  notice: string
  readOnly: boolean
  width: number
}) {
  const { question, notice, readOnly, width } = props
  return (
    <Text wrap="truncate" dimColor={question === null && notice === ''} bold={question !== null}>
      {question ?? (notice || parkedKeyLine(readOnly, width))}
    </Text>
  )
}

function pauseQuestion({ pipe_name: name, pipe_status: status }: OverviewPipe): string {
  if (status === 'paused') return `Resume pipe ${name}? [y/N]  It accepts records again.`
  return `Pause pipe ${name}? [y/N]  Senders get 404; the backlog is still delivered.`
}
