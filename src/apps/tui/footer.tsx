/** The last lines: a question, what is typed, the outcome of the last action, or the keys of the page. */
import { Box, Text } from 'ink'
import type { OverviewPipe } from '../../contract/overview.ts'
import * as actions from './actions.ts'
import type { Entry } from './use-entry.ts'

export interface FooterProps {
  /** A question or an input, which is shown instead of everything else. */
  asks: string | null
  notice: string
  keys: readonly string[]
}

/** As high as the keys, so that the page above does not move when a notice comes or goes. */
export function Footer({ asks, notice, keys }: FooterProps) {
  const text = asks ?? notice
  return (
    <Box height={keys.length} overflow="hidden" flexDirection="column">
      {text === '' ? (
        keys.map((line) => (
          <Text key={line} wrap="truncate" dimColor>
            {line}
          </Text>
        ))
      ) : (
        <Text wrap={keys.length > 1 ? 'wrap' : 'truncate'} bold={asks !== null}>
          {text}
        </Text>
      )}
    </Box>
  )
}

export function entryLine(entry: Entry, typed: string): string {
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

function pauseQuestion({ pipe_name: name, pipe_status: status }: OverviewPipe): string {
  if (status === 'paused') return `Resume pipe ${name}? [y/N]  It accepts records again.`
  return `Pause pipe ${name}? [y/N]  Senders get 404; the backlog is still delivered.`
}
