/** The board: every pipe and lane on a line, those in trouble first. Knows nothing of keys or requests. */
import { Box, Text } from 'ink'
import { printable } from '../client/printable.ts'
import { bytes, count, duration } from '../client/quantities.ts'
import { kindOf } from '../client/workspace.ts'
import { type Rates, type Row, visible } from './snapshot.ts'
import { sparkline } from './sparkline.ts'

export interface BoardProps {
  rows: readonly Row[]
  rates: Rates
  selectedId: string | null
  width: number
  height: number
}

const stateColours: Record<string, string> = {
  blocked: 'red',
  stalled: 'red',
  retrying: 'yellow',
  paused: 'yellow',
  flowing: 'green',
  active: 'green',
}
/** Everything but the name, which gets what is left. */
const columns = { state: 9, backlog: 9, size: 10, age: 8, rate: 9, chart: 12 } as const
const fixed = Object.values(columns).reduce((sum, one) => sum + one + 1, 0)

export function Board({ rows, rates, selectedId, width, height }: BoardProps) {
  const selected = Math.max(
    0,
    rows.findIndex((row) => row.id === selectedId),
  )
  const { from, to } = visible(rows.length, selected, Math.max(1, height - 1))
  const nameWidth = Math.max(12, width - fixed - 2)
  return (
    <Box flexDirection="column" height={height}>
      <Text bold wrap="truncate">
        {`  ${cells(nameWidth, 'PIPE / LANE', 'STATE', 'BACKLOG', 'SIZE', 'OLDEST', 'REC/S', '')}`}
      </Text>
      {rows.slice(from, to).map((row, index) => (
        <Line
          key={row.id}
          row={row}
          rates={rates.get(row.id) ?? []}
          isSelected={from + index === selected}
          nameWidth={nameWidth}
        />
      ))}
    </Box>
  )
}

function Line(props: { row: Row; rates: readonly number[]; isSelected: boolean; nameWidth: number }) {
  const { row, rates, isSelected, nameWidth } = props
  const state = row.destination?.lane.lane_state ?? row.pipe.pipe.pipe_status
  const text = cells(
    nameWidth,
    ...(row.destination === null ? pipeCells(row) : laneCells(row)),
    rateOf(rates),
    sparkline(rates, columns.chart),
  )
  const colour = stateColours[state]
  const at = nameWidth + 1
  return (
    <Text wrap="truncate" bold={row.destination === null} inverse={isSelected}>
      {isSelected ? '▶ ' : '  '}
      {text.slice(0, at)}
      {colour === undefined ? (
        text.slice(at, at + columns.state)
      ) : (
        <Text color={colour}>{text.slice(at, at + columns.state)}</Text>
      )}
      {text.slice(at + columns.state)}
    </Text>
  )
}

function pipeCells({ pipe }: Row): [string, string, string, string, string] {
  const pending = pipe.usage?.pending_messages ?? 0
  return [
    printable(pipe.pipe.pipe_name),
    pipe.pipe.pipe_status,
    count(pending),
    pending === 0 ? '' : bytes(pipe.usage?.pending_bytes ?? 0),
    '',
  ]
}

function laneCells({ destination, pipe }: Row): [string, string, string, string, string] {
  if (destination === null) throw new Error('a pipe has no lane')
  const { lane } = destination
  const twins = pipe.destinations.filter((one) => one.destination_type === destination.destination_type)
  const name =
    twins.length > 1
      ? `${kindOf(destination)} ${destination.destination_id.slice(0, 8)}`
      : kindOf(destination)
  const isIdle = lane.pending_messages === 0
  return [
    `  ${name}`,
    lane.lane_state,
    count(lane.pending_messages),
    isIdle ? '' : bytes(lane.pending_bytes),
    isIdle ? '' : duration(lane.oldest_pending_age_seconds),
  ]
}

function rateOf(rates: readonly number[]): string {
  return count(rates.at(-1) ?? 0)
}

function cells(nameWidth: number, name: string, state: string, ...rest: string[]): string {
  const [backlog = '', size = '', age = '', rate = '', chart = ''] = rest
  return [
    fit(name, nameWidth),
    fit(state, columns.state),
    fit(backlog, columns.backlog, true),
    fit(size, columns.size, true),
    fit(age, columns.age, true),
    fit(rate, columns.rate, true),
    chart,
  ].join(' ')
}

function fit(text: string, width: number, toTheRight = false): string {
  const short = text.length > width ? `${text.slice(0, width - 1)}…` : text
  return toTheRight ? short.padStart(width) : short.padEnd(width)
}
