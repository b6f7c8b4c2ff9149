/**
 * Tables that fit the terminal. If a table is too wide, spare columns are dropped first, then columns that allow it
 * are truncated, then further columns are dropped, the least important first. Texts that must be readable in full
 * (errors, values) are wrapped: in the last column, or as a note below their row. Widths are those of a terminal: CJK
 * characters and emoji take two columns.
 */
import stringWidth from 'string-width'
import { printable } from '../client/printable.ts'
import { cut, cutInMiddle, wrap } from '../client/terminal-text.ts'
import { type Colour, paint } from './terminal.ts'

export interface Column {
  label: string
  /** Dropped before anything is truncated. For columns that are rarely read, such as ids. */
  isSpare?: boolean
  /** Can be dropped if there is no room. The highest value of a table goes first. */
  gives?: number
  /** Can be truncated to this width, with `…` at the end. */
  shrinksTo?: number
  /** Truncated in the middle, because the end of `orders/warehouse` is more useful. */
  keepsEnd?: boolean
  /** Only for the last column: it is wrapped instead. */
  wraps?: boolean
}

export interface Table {
  columns: readonly (string | Column)[]
  rows: readonly (readonly string[])[]
  /** The note below each row, by the row's index. Null: none. */
  notes?: readonly (string | null)[]
  /** The text if there are no rows. */
  empty?: string
}

const gap = 2
/** The minimum width of a column on any terminal. */
const narrowest = 6
const narrowestWrapped = 16
const noteIndent = '  └ '
/** The maximum number of lines of a note. A table is an overview; the full text is shown elsewhere. */
const noteLines = 4

/** Ends with a line break. `width` is that of the terminal; Infinity: unlimited. */
export function drawTable(table: Table, width: number, colours: boolean): string {
  if (table.rows.length === 0) return `${table.empty ?? 'none'}\n`
  const columns = table.columns.map((one) => (typeof one === 'string' ? { label: one } : one))
  const rows = table.rows.map((row) => row.map(printable))
  const shown = fit(columns, rows, width)
  const heading = columns.map((column) => column.label)
  const lines = drawRow(heading, shown, width, (text) => paint('bold', text, colours))
  for (const [index, row] of rows.entries()) {
    lines.push(...drawRow(row, shown, width, (text, cell) => paintState(text, cell, colours)))
    const note = table.notes?.[index] ?? null
    if (note === null) continue
    const wrapped = wrap(printable(note).trim(), width - noteIndent.length)
    for (const [at, line] of shortened(wrapped, noteLines).entries()) {
      const indent = at === 0 ? noteIndent : ' '.repeat(noteIndent.length)
      lines.push(paint('dim', `${indent}${line}`, colours))
    }
  }
  return `${lines.join('\n')}\n`
}

interface Shown {
  /** Its index in the row. */
  index: number
  width: number
  wraps: boolean
  keepsEnd: boolean
}

/** The visible columns with their widths. */
function fit(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly Shown[] {
  const natural = columns.map((column, index) =>
    Math.max(stringWidth(column.label), ...rows.map((row) => stringWidth(row[index] ?? ''))),
  )
  const kept = new Set(columns.keys())
  for (;;) {
    const shown = [...kept].map((index) => ({
      index,
      width: natural[index] ?? 0,
      wraps: columns[index]?.wraps === true,
      keepsEnd: columns[index]?.keepsEnd === true,
    }))
    const hasSpare = shown.some(({ index }) => columns[index]?.isSpare === true)
    const smallest = ({ index, wraps }: Shown) => {
      if (hasSpare) return Number.POSITIVE_INFINITY
      return wraps ? narrowestWrapped : (columns[index]?.shrinksTo ?? Number.POSITIVE_INFINITY)
    }
    if (shrink(shown, width, smallest)) return shown
    const givesOf = (index: number) => (columns[index]?.isSpare ? Infinity : (columns[index]?.gives ?? 0))
    const [first] = [...kept].sort((a, b) => givesOf(b) - givesOf(a))
    if (first === undefined || givesOf(first) === 0) {
      shrink(shown, width, () => narrowest)
      return shown
    }
    kept.delete(first)
  }
}

/** Repeatedly takes one character from the widest column that can shrink. False: that is not enough. */
function shrink(shown: readonly Shown[], width: number, smallest: (one: Shown) => number): boolean {
  let over = shown.reduce((sum, one) => sum + one.width, gap * (shown.length - 1)) - width
  while (over > 0) {
    const givers = shown.filter((one) => one.width > smallest(one))
    if (givers.length === 0) return false
    const widest = givers.reduce((a, b) => (b.width > a.width ? b : a))
    const next = Math.max(0, ...givers.filter((one) => one !== widest).map((one) => one.width))
    const by = Math.min(over, Math.max(1, widest.width - Math.max(next, smallest(widest))))
    widest.width -= by
    over -= by
  }
  return true
}

function drawRow(
  row: readonly string[],
  shown: readonly Shown[],
  width: number,
  painted: (text: string, cell: string) => string,
): string[] {
  const last = shown.at(-1)
  const before = shown.slice(0, last?.wraps === true ? -1 : undefined)
  const cells = before.map(({ index, width, keepsEnd }) => {
    const cell = row[index] ?? ''
    const text = keepsEnd ? cutInMiddle(cell, width) : cut(cell, width)
    return { text: painted(text, cell), padding: ' '.repeat(Math.max(0, width - stringWidth(text))) }
  })
  const start = cells.map(({ text, padding }) => text + padding).join(' '.repeat(gap))
  if (last?.wraps !== true) return [start.trimEnd()]
  const indent = before.reduce((sum, one) => sum + one.width + gap, 0)
  const cell = row[last.index] ?? ''
  const lines = wrap(cell, last.width, width - gap)
  return lines.map((line, at) => {
    if (at === 0) return `${start}${' '.repeat(before.length > 0 ? gap : 0)}${painted(line, cell)}`.trimEnd()
    // A word that fits only on its own line, such as a URL to be copied, starts further left.
    const isWide = stringWidth(line) > last.width
    return `${' '.repeat(isWide ? gap : indent)}${line}`.trimEnd()
  })
}

function shortened(lines: readonly string[], most: number): string[] {
  if (lines.length <= most) return [...lines]
  const last = lines[most - 1] ?? ''
  return [...lines.slice(0, most - 1), cut(`${last} …`, Math.max(2, stringWidth(last)))]
}

const stateColours: Record<string, Colour> = {
  blocked: 'red',
  stuck: 'red',
  retrying: 'yellow',
  paused: 'yellow',
  active: 'green',
  delivering: 'green',
  fail: 'red',
  warn: 'yellow',
  ok: 'green',
}

function paintState(text: string, cell: string, colours: boolean): string {
  const colour = stateColours[cell]
  return colour === undefined ? text : paint(colour, text, colours)
}
