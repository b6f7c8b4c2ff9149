/** The board: every pipe and lane on one line, lanes with problems first. Handles no keys and sends no requests. */
import { Box, Text } from 'ink'
import stringWidth from 'string-width'
import type { OverviewLane } from '../../contract/overview.ts'
import { laneWord } from '../../contract/state-words.ts'
import { bytes, count, duration } from '../../platform/quantities.ts'
import { printable } from '../client/printable.ts'
import { cut } from '../client/terminal-text.ts'
import { type Rates, sparkline } from './rates.ts'
import { type Row, visible } from './rows.ts'
import { stateMarks } from './state-marks.ts'

export interface BoardProps {
  rows: readonly Row[]
  rates: Rates
  /** True in a cluster: the line of a pipe shows its node. */
  showsNodes?: boolean
  selectedId: string | null
  width: number
  height: number
}

/** Widths of all columns except the name, which gets the remaining width. */
const columns = { state: 13, node: 10, backlog: 9, size: 10, age: 8, rate: 7, chart: 12 } as const
/**
 * The columns that a narrow terminal omits, in this order: each one while names would be cut, unless they have this
 * width.
 */
const dispensable: readonly (readonly [Column, number])[] = [
  ['chart', 48],
  ['size', 32],
  ['node', 20],
  ['rate', 20],
  ['age', 14],
  ['backlog', 14],
]
const longestName = 48
const shortestName = 12
const shortestError = 20

type Column = keyof typeof columns

/** The columns that fit. `longest` is the width of the longest name. */
function columnsFor(width: number, showsNodes: boolean, longest: number): Column[] {
  const nodes: Column[] = showsNodes ? ['node'] : []
  const shown: Column[] = ['state', ...nodes, 'backlog', 'size', 'age', 'rate', 'chart']
  for (const [column, enough] of dispensable) {
    const at = shown.indexOf(column)
    if (at !== -1 && width - 2 - widthOf(shown) < Math.min(longest, enough)) shown.splice(at, 1)
  }
  return shown
}

const widthOf = (shown: readonly Column[]) => shown.reduce((sum, one) => sum + columns[one] + 1, 0)

const headings: Record<Column, string> = {
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
  // All rows count, so that the columns stay where they are while the user scrolls.
  const longest = Math.max(shortestName, ...rows.map((row) => stringWidth(nameOf(row) + parkedOf(row))))
  const shown = columnsFor(width, showsNodes, longest)
  const rest = width - 2 - widthOf(shown)
  // The errors get the remaining width of a wide terminal.
  const wanted = Math.min(longestName, longest)
  const errorWidth = rest - wanted >= shortestError ? rest - wanted - 1 : 0
  const nameWidth = errorWidth > 0 ? wanted : Math.max(shortestName, rest)
  return (
    <Box flexDirection="column" width={width} height={height}>
      <Text bold wrap="truncate">
        {`  ${[padded('PIPE / LANE', nameWidth), ...shown.map((one) => cell(headings[one], one))].join(' ')}`}
        {errorWidth > 0 ? ' LAST ERROR' : ''}
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
  const { sign, colour } = stateMarks[state]
  const cells = {
    ...(row.destination === null ? pipeCells(row) : laneCells(row.destination)),
    // Delivery does not respond, so the state is the last saved one.
    state: `${sign} ${state}${row.destination?.lane.stale === true ? '?' : ''}`,
    rate: count(rates.at(-1) ?? 0),
    chart: sparkline(rates, columns.chart),
  }
  const parked = parkedOf(row)
  const name = cut(nameOf(row), nameWidth - parked.length) + parked
  const [stateCell = '', ...others] = shown.map((column) => cell(cells[column], column))
  return (
    <Text wrap="truncate" bold={row.destination === null || row.severity > 1} inverse={isSelected}>
      {isSelected ? '▶ ' : '  '}
      {padded(name, nameWidth)} <Text color={colour}>{stateCell}</Text> {others.join(' ')}
      {errorWidth > 0 ? ` ${errorText(row).slice(0, errorWidth - 1)}` : ''}
    </Text>
  )
}

/** `parkedOf` follows the name and is never cut. */
function nameOf({ pipe, destination }: Row): string {
  return destination === null ? printable(pipe.pipe_name) : `  ${printable(destination.destination_name)}`
}

function parkedOf({ destination }: Row): string {
  return destination?.lane.parked_records ? ` ${count(destination.lane.parked_records)} parked` : ''
}

function errorText({ destination }: Row): string {
  const error = destination?.lane.last_error ?? null
  return error === null ? '' : printable(`${error.code}: ${error.message}`)
}

type CountedCells = Omit<Record<Column, string>, 'state' | 'rate' | 'chart'>

function pipeCells({ pipe }: Row): CountedCells {
  const pending = pipe.pending_messages
  return {
    node: printable(pipe.node_name ?? '-'),
    backlog: count(pending),
    size: pending === 0 ? '' : bytes(pipe.pending_bytes),
    age: '',
  }
}

function laneCells({ lane }: OverviewLane): CountedCells {
  const isIdle = lane.pending_messages === 0
  return {
    node: '',
    backlog: count(lane.pending_messages),
    size: isIdle ? '' : bytes(lane.pending_bytes),
    age: isIdle ? '' : duration(lane.oldest_pending_age_seconds),
  }
}

function cell(text: string, column: Column): string {
  const width = columns[column]
  const short = cut(text, width)
  return column === 'state' || column === 'node' ? padded(short, width) : short.padStart(width)
}

function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - stringWidth(text)))
}
