/** The board: every pipe and lane on one line, lanes with problems first. Handles no keys and sends no requests. */
import { Box, Text } from 'ink'
import type { OverviewLane } from '../../contract/overview.ts'
import { laneWord } from '../../contract/state-words.ts'
import { bytes, count, duration } from '../../platform/quantities.ts'
import { printable } from '../client/printable.ts'
import { type Rates, sparkline } from './rates.ts'
import { type Row, visible } from './rows.ts'

export interface BoardProps {
  rows: readonly Row[]
  rates: Rates
  /** True in a cluster: the line of a pipe shows its node. */
  showsNodes?: boolean
  selectedId: string | null
  width: number
  height: number
}

const stateColours: Record<string, string> = {
  blocked: 'red',
  stuck: 'red',
  retrying: 'yellow',
  paused: 'yellow',
  delivering: 'green',
  active: 'green',
}
/** Widths of all columns except the name, which gets the remaining width. */
const columns = { state: 11, node: 10, backlog: 9, size: 10, age: 8, rate: 8, chart: 12 } as const
/**
 * The columns that a narrow terminal omits, in this order: each one while the name would have less than this width.
 */
const dispensable: readonly (readonly [Column, number])[] = [
  ['chart', 24],
  ['size', 24],
  ['rate', 14],
  ['node', 14],
  ['age', 14],
  ['backlog', 14],
]
const longestName = 40
const shortestError = 20

type Column = keyof typeof columns
/** `parked` follows the name and is never truncated. */
type Cells = Record<'name' | 'parked' | Column, string>

/** The columns that fit. */
function columnsFor(width: number, showsNodes: boolean): Column[] {
  const nodes: Column[] = showsNodes ? ['node'] : []
  const shown: Column[] = ['state', ...nodes, 'backlog', 'size', 'age', 'rate', 'chart']
  for (const [column, shortestName] of dispensable) {
    const at = shown.indexOf(column)
    if (at !== -1 && width - 2 - widthOf(shown) < shortestName) shown.splice(at, 1)
  }
  return shown
}

const widthOf = (shown: readonly Column[]) => shown.reduce((sum, one) => sum + columns[one] + 1, 0)

const headings: Cells = {
  name: 'PIPE / LANE',
  parked: '',
  state: 'STATE',
  node: 'NODE',
  backlog: 'BACKLOG',
  size: 'SIZE',
  age: 'OLDEST',
  rate: 'REC/S',
  chart: '',
}

export function Board({ rows, rates, showsNodes = false, selectedId, width, height }: BoardProps) {
  const selected = Math.max(
    0,
    rows.findIndex((row) => row.id === selectedId),
  )
  const { from, to } = visible(rows.length, selected, Math.max(1, height - 1))
  const shown = columnsFor(width, showsNodes)
  const rest = width - 2 - widthOf(shown)
  // The errors get the remaining width of a wide terminal.
  const errorWidth = rest - longestName >= shortestError ? rest - longestName - 1 : 0
  const nameWidth = errorWidth > 0 ? longestName : Math.max(8, rest)
  return (
    <Box flexDirection="column" width={width} height={height}>
      <Text bold wrap="truncate">
        {`  ${line(headings, nameWidth, shown)}${errorWidth > 0 ? ' LAST ERROR' : ''}`}
      </Text>
      {rows.slice(from, to).map((row, index) => (
        <Line
          key={row.id}
          row={row}
          rates={rates.get(row.id) ?? []}
          isSelected={from + index === selected}
          nameWidth={nameWidth}
          shown={shown}
          errorWidth={errorWidth}
        />
      ))}
    </Box>
  )
}

interface LineProps {
  row: Row
  rates: readonly number[]
  isSelected: boolean
  nameWidth: number
  shown: readonly Column[]
  /** 0: the column is omitted. */
  errorWidth: number
}

function Line({ row, rates, isSelected, nameWidth, shown, errorWidth }: LineProps) {
  const state = row.destination === null ? row.pipe.pipe_status : laneWord(row.destination)
  const cells = {
    ...(row.destination === null ? pipeCells(row) : laneCells(row.destination, state)),
    rate: count(rates.at(-1) ?? 0),
    chart: sparkline(rates, columns.chart),
  }
  const text = line(cells, nameWidth, shown)
  const colour = row.severity > 1 ? 'red' : stateColours[state]
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
      {errorWidth > 0 ? ` ${errorText(row).slice(0, errorWidth - 1)}` : ''}
    </Text>
  )
}

function errorText({ destination }: Row): string {
  const error = destination?.lane.last_error ?? null
  return error === null ? '' : printable(`${error.code}: ${error.message}`)
}

type CountedCells = Omit<Cells, 'rate' | 'chart'>

function pipeCells({ pipe }: Row): CountedCells {
  const pending = pipe.pending_messages
  return {
    name: printable(pipe.pipe_name),
    parked: '',
    state: pipe.pipe_status,
    node: printable(pipe.node_name ?? '-'),
    backlog: count(pending),
    size: pending === 0 ? '' : bytes(pipe.pending_bytes),
    age: '',
  }
}

function laneCells(destination: OverviewLane, state: string): CountedCells {
  const { lane } = destination
  const isIdle = lane.pending_messages === 0
  return {
    name: `  ${printable(destination.destination_name)}`,
    parked: lane.parked_records ? ` ${count(lane.parked_records)} parked` : '',
    // Delivery does not respond, so the state is the last saved one.
    state: lane.stale === true ? `${state}?` : state,
    node: '',
    backlog: count(lane.pending_messages),
    size: isIdle ? '' : bytes(lane.pending_bytes),
    age: isIdle ? '' : duration(lane.oldest_pending_age_seconds),
  }
}

function line(cells: Cells, nameWidth: number, shown: readonly Column[]): string {
  const parts = shown.map((column) =>
    fit(cells[column], columns[column], column !== 'state' && column !== 'node'),
  )
  const name = cut(cells.name, nameWidth - cells.parked.length) + cells.parked
  return [fit(name, nameWidth, false), ...parts].join(' ')
}

function fit(text: string, width: number, toTheRight: boolean): string {
  const short = cut(text, width)
  return toTheRight ? short.padStart(width) : short.padEnd(width)
}

function cut(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, width - 1)}…` : text
}
