/** The keys of every page: the page that explains them (`?`), and the lines of keys at the bottom. */
import { type NamedLine, Page, type PageProps } from './scroll.tsx'

/** The pages with keys of their own. `record` is one parked record. */
export type KeysOf = 'board' | 'detail' | 'parked' | 'record' | 'keys'

interface KeyEntry {
  key: string
  /** In the lines at the bottom. Undefined: only the page of keys has it. */
  label?: string
  /** On the page of keys. Undefined: another entry explains it. */
  text?: string
  on: readonly KeysOf[]
  /** It changes something, so `--read-only` disables it. */
  changes?: true
}

const lanePages = ['board', 'detail'] as const
const parkedPages = ['parked', 'record'] as const

/** In the order of the lines at the bottom, which omit the last ones on a narrow terminal. */
const keyTable: readonly KeyEntry[] = [
  { key: '?', label: 'keys', text: 'these keys', on: [...lanePages, ...parkedPages] },
  { key: 'q', label: 'quit', text: 'quit', on: [...lanePages, ...parkedPages, 'keys'] },
  { key: 'esc', label: 'back', text: 'back to the page before', on: ['detail', ...parkedPages] },
  {
    ...{ key: 's', label: 'skip', on: lanePages, changes: true },
    text: 'skip (park) the blocking message of a lane, if a record is at fault (asks)',
  },
  {
    ...{ key: 'r', label: 'retry', on: lanePages, changes: true },
    text: 'retry the blocking message now, and wait for the result',
  },
  {
    ...{ key: 'b', label: 'block', on: lanePages, changes: true },
    text: 'block the destination (asks), or unblock it',
  },
  {
    ...{ key: 'x', label: 'parked', on: lanePages },
    text: 'show the parked records of a lane: enter shows one, r replays it, d discards it (asks), R replays all (asks)',
  },
  {
    ...{ key: 'w', label: 'rewind', on: lanePages, changes: true },
    text: 'rewind the lane: earliest, a stream_seq or a time',
  },
  {
    ...{ key: 'p', label: 'pause', on: lanePages, changes: true },
    text: 'pause the pipe, or resume it (asks)',
  },
  { key: 'enter', label: 'show', on: ['parked'] },
  { key: 'r', label: 'replay', on: parkedPages, changes: true },
  { key: 'd', label: 'discard', on: parkedPages, changes: true },
  { key: 'R', label: 'replay all', on: parkedPages, changes: true },
  { key: 'a', label: 'problems only', text: 'show only lanes with problems, or all', on: ['board'] },
  { key: '/', label: 'filter', text: 'filter by name, state or kind', on: ['board'] },
  { key: 'n', label: 'next', text: 'the next lane that needs attention', on: lanePages },
  { key: 'enter', label: 'detail', text: 'show the pipe or lane in full', on: ['board'] },
  { key: '↑↓', label: 'choose', text: 'choose a line; also j and k', on: [...lanePages, 'parked'] },
  {
    key: 'PgDn',
    label: 'scroll',
    text: 'ten lines further, or scroll a page; PgUp: back',
    on: ['detail', 'record', 'keys'],
  },
  { key: 'another key:', label: 'back', on: ['keys'] },
  { key: 'Home', text: 'the first line, also g; the last one: End or G', on: [] },
]

export interface KeysShown {
  page: KeysOf
  readOnly: boolean
  canSkip: boolean
  /** Text before the first key, or empty. */
  before: string
}

/** At most `most` lines of whole keys. */
export function keyLines(
  { page, readOnly, canSkip, before }: KeysShown,
  width: number,
  most: number,
): string[] {
  const shown = keyTable.filter(
    ({ key, label, on, changes }) =>
      label !== undefined && on.includes(page) && !(readOnly && changes === true) && (canSkip || key !== 's'),
  )
  const parts = [...(before === '' ? [] : [before]), ...shown.map(({ key, label }) => `${key} ${label}`)]
  const lines: string[] = []
  for (const part of parts) {
    const longer = lines.length === 0 ? part : `${lines.at(-1)}  ${part}`
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer
    else if (lines.length < most) lines.push(part.slice(0, width))
    else break
  }
  return lines
}

export function KeysHelp({
  readOnly,
  ...page
}: { readOnly: boolean } & Omit<PageProps, 'lines' | 'nameWidth'>) {
  const lines = keyTable.flatMap(({ key, text, changes }): NamedLine[] => {
    if (text === undefined) return []
    return [[`  ${key}`, readOnly && changes ? `${text} (off: --read-only)` : text]]
  })
  return <Page lines={lines} nameWidth={9} {...page} />
}
