/** The parked records of a lane: the list, or one record in detail. Handles no keys and sends no requests. */
import { Box, Text } from 'ink'
import type { ParkedRecord } from '../../contract/parked.ts'
import { ago, counted } from '../../platform/quantities.ts'
import { errorWords, placeWords, shortIds, stateWord } from '../client/parked.ts'
import { printable } from '../client/printable.ts'
import { visible } from './rows.ts'
import { type NamedLine, Page, type PageProps } from './scroll.tsx'
import type { ParkedView, ShownRecord } from './use-parked.ts'

export interface ParkedPageProps extends Omit<PageProps, 'lines' | 'nameWidth'> {
  name: string
  view: ParkedView
  nowMs: number
}

export function ParkedPage({ name, view, nowMs, ...page }: ParkedPageProps) {
  const { list, hasMore, selected, shown } = view
  const { height } = page
  if (shown !== null) return <One name={name} shown={shown} nowMs={nowMs} {...page} />
  const title = `Parked records of ${printable(name)}`
  if (list === null) return <Lines height={height} lines={[`${title}: loading…`]} />
  if (list.length === 0) return <Lines height={height} lines={[`${title}: none.`]} />
  const at = selected === null ? 0 : list.indexOf(selected)
  const { from, to } = visible(list.length, at, Math.max(1, height - 2))
  const short = shortIds(list.map((one) => one.parked_id))
  const idWidth = Math.max(...[...short.values()].map((id) => id.length)) + 2
  return (
    <Box flexDirection="column" height={height}>
      <Text bold wrap="truncate">
        {`${title}: ${counted(list.length, 'record')}${hasMore ? ' and more' : ''}`}
      </Text>
      <Text dimColor wrap="truncate">
        {`  ${'PARKED'.padEnd(idWidth)}${'WHEN'.padEnd(12)}${'RECORD'.padEnd(12)}${'STATE'.padEnd(11)}ERROR`}
      </Text>
      {list.slice(from, to).map((one) => (
        <Text key={one.parked_id} wrap="truncate" inverse={one === selected}>
          {one === selected ? '▶ ' : '  '}
          {lineOf(one, (short.get(one.parked_id) ?? '').padEnd(idWidth), nowMs)}
        </Text>
      ))}
    </Box>
  )
}

function lineOf(one: ParkedRecord, id: string, nowMs: number): string {
  const state = stateWord(one)
  const cells = [id, ago(one.parked_ts, nowMs).padEnd(12), placeWords(one).padEnd(12), state.padEnd(11)]
  return `${cells.join('')}${printable(errorWords(one.error))}`
}

/** This number of characters distinguishes ids of the same time and fits on the line. */
const distinctId = 18

function One({ name, shown, nowMs, ...page }: Omit<ParkedPageProps, 'view'> & { shown: ShownRecord }) {
  const { parked, records } = shown
  const lines: NamedLine[] = [
    ['parked record', parked.parked_id],
    ['lane', name],
    ['record', `${placeWords(parked)}  message ${parked.msg_id}`],
    ['state', `${stateWord(parked)} ${ago(parked.parked_ts, nowMs)} (${parked.parked_ts})`],
    ['error', errorWords(parked.error), 'red'],
    ['attempts', `${parked.attempts}, including ${counted(parked.replays, 'replay')}`],
    ...parked.history.map((one): NamedLine => [`failed ${ago(one.failed_ts, nowMs)}`, errorWords(one.error)]),
    ['to edit', `pipectl parked edit ${name} ${parked.parked_id.slice(0, distinctId)}`],
    ['', ''],
    ...records.map((record, index): NamedLine => [`  ${parked.record_index ?? index}`, record]),
  ]
  return <Page lines={lines} nameWidth={18} {...page} />
}

function Lines({ height, lines }: { height: number; lines: readonly string[] }) {
  return (
    <Box flexDirection="column" height={height}>
      {lines.map((line) => (
        <Text key={line} wrap="truncate">
          {line}
        </Text>
      ))}
    </Box>
  )
}
