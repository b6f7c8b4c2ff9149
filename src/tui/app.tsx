/**
 * The screen of `pipectl top`: which page is shown and what the keys mean there.
 *
 *   board ──enter──▶ detail      any page ──?──▶ keys ──any key──▶ back
 *     │ /  filter: typing narrows the board; enter keeps it, esc clears it
 *     │ s  question: only y does it
 *     └ w  rewind: typing says where to; enter does it, esc does not
 *
 * It is always one line lower than the terminal: at full height the terminal would be cleared for every frame.
 */
import { Box, Text, useApp } from 'ink'
import { useEffect, useState } from 'react'
import type { Client } from '../client/client.ts'
import { count } from '../client/quantities.ts'
import { trouble } from '../client/workspace.ts'
import * as actions from './actions.ts'
import { Board } from './board.tsx'
import { type Blocking, Detail } from './detail.tsx'
import { KeysHelp, keyLine } from './keys-help.tsx'
import { type Row, rowsOf } from './snapshot.ts'
import { useSnapshot } from './use-snapshot.ts'
import { type Stroke, useStrokes } from './use-strokes.ts'

export interface AppProps {
  client: Client
  readOnly: boolean
  width: number
  height: number
  /** Changes when the terminal was wiped: the frame must then differ from the last one, or it is not drawn again. */
  wiped?: number
  everyMs?: number
}

type Entry =
  | { kind: 'filter' }
  | { kind: 'rewind'; lane: actions.Lane }
  | { kind: 'skip'; lane: actions.Lane }

const readOnlyNotice = 'This screen is read-only.'

export function App({ client, readOnly, width, height, wiped = 0, everyMs = 1000 }: AppProps) {
  const { exit } = useApp()
  const feed = useSnapshot(client, everyMs)
  const [selectedId, select] = useState<string | null>(null)
  const [page, setPage] = useState<'board' | 'detail' | 'keys'>('board')
  const [filter, setFilter] = useState('')
  const [entry, setEntry] = useState<Entry | null>(null)
  const [typed, setTyped] = useState('')
  const [notice, setNotice] = useState('')
  const rows = feed.snapshot === null ? [] : rowsOf(feed.snapshot, filter)
  const row = rows.find((one) => one.id === selectedId) ?? rows[0] ?? null
  const lane = row === null ? null : laneOf(row)
  const blocking = useBlocking(client, page === 'detail' ? lane : null, feed.snapshot?.takenMs ?? 0)

  const act = (what: Promise<string>) => {
    setNotice('…')
    what.then(setNotice, (error) => setNotice(actions.failureLine(error))).finally(feed.refresh)
  }
  const endEntry = () => {
    setEntry(null)
    setTyped('')
  }
  const onLane = (what: (lane: actions.Lane) => void) => {
    if (readOnly) setNotice(readOnlyNotice)
    else if (lane === null) setNotice('Choose a lane first: a line below a pipe.')
    else what(lane)
  }
  const move = (by: number) => {
    const at = rows.findIndex((one) => one.id === row?.id)
    select(rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.id ?? null)
  }

  const onEntryStroke = (current: Entry, stroke: Stroke) => {
    if (current.kind === 'skip') {
      endEntry()
      if (stroke === 'y' || stroke === 'Y') act(actions.skip(client, current.lane))
      else setNotice('Not skipped.')
    } else if (stroke === 'escape') {
      if (current.kind === 'filter') setFilter('')
      endEntry()
    } else if (stroke === 'return') {
      if (current.kind === 'rewind' && typed !== '') act(actions.rewind(client, current.lane, typed))
      endEntry()
    } else if (stroke === 'erase' || stroke.length === 1) {
      const text = stroke === 'erase' ? typed.slice(0, -1) : typed + stroke
      setTyped(text)
      if (current.kind === 'filter') setFilter(text)
    }
  }
  const changes: Record<string, () => void> = {
    s: () => onLane((chosen) => setEntry({ kind: 'skip', lane: chosen })),
    w: () => onLane((chosen) => setEntry({ kind: 'rewind', lane: chosen })),
    r: () => onLane((chosen) => act(actions.retry(client, chosen))),
    b: () => onLane((chosen) => act(actions.toggleBlocked(client, chosen))),
    p: () => {
      if (readOnly) setNotice(readOnlyNotice)
      else if (row !== null) act(actions.togglePaused(client, row.pipe.pipe))
    },
  }
  const moves: Record<string, number> = { up: -1, k: -1, down: 1, j: 1, pageUp: -10, pageDown: 10 }

  useStrokes((stroke) => {
    if (entry !== null) return onEntryStroke(entry, stroke)
    setNotice('')
    if (stroke === 'q') exit()
    else if (page === 'keys') setPage('board')
    else if (stroke === '?') setPage('keys')
    else if (stroke === 'escape' || stroke === 'left') setPage('board')
    else if (stroke === 'return' || stroke === 'right') setPage('detail')
    else if (stroke === '/') {
      setPage('board')
      setTyped(filter)
      setEntry({ kind: 'filter' })
    } else if (moves[stroke] !== undefined) move(moves[stroke])
    else changes[stroke]?.()
  })

  // Header, status line, and the line that the terminal keeps for itself.
  const bodyHeight = Math.max(3, height - 3)
  return (
    <Box flexDirection="column" width={width} height={bodyHeight + 2} overflow="hidden">
      <Header url={client.url} feed={feed} readOnly={readOnly} wiped={wiped} />
      {feed.snapshot === null ? (
        <Box height={bodyHeight}>
          <Text>{feed.staleBecause === null ? 'Asking the daemon…' : ''}</Text>
        </Box>
      ) : page === 'keys' ? (
        <KeysHelp height={bodyHeight} readOnly={readOnly} />
      ) : page === 'detail' && row !== null ? (
        <Detail row={row} blocking={blocking} height={bodyHeight} />
      ) : rows.length === 0 ? (
        <Box height={bodyHeight}>
          <Text>
            {filter === '' ? 'No pipes yet: pipectl pipes create NAME' : 'Nothing fits the filter.'}
          </Text>
        </Box>
      ) : (
        <Board
          rows={rows}
          rates={feed.rates}
          selectedId={row?.id ?? null}
          width={width}
          height={bodyHeight}
        />
      )}
      <Footer entry={entry} typed={typed} notice={notice} filter={filter} readOnly={readOnly} />
    </Box>
  )
}

function Header(props: {
  url: string
  feed: ReturnType<typeof useSnapshot>
  readOnly: boolean
  wiped: number
}) {
  const { snapshot, staleBecause } = props.feed
  const lanes = snapshot?.pipes.flatMap((one) => one.destinations) ?? []
  const stuck = lanes.filter((one) => trouble(one) > 1).length
  const pending = snapshot?.pipes.reduce((sum, one) => sum + (one.usage?.pending_messages ?? 0), 0) ?? 0
  return (
    <Text wrap="truncate">
      <Text bold>pipectl</Text>
      {/* A space of another kind every second time; see `wiped`. */}
      {props.wiped % 2 === 0 ? ' ' : '\u00a0'}
      {staleBecause === null ? null : (
        <Text inverse color="red">
          {' STALE '}
        </Text>
      )}
      {staleBecause === null ? null : <Text color="red">{` ${staleBecause} `}</Text>}
      {props.readOnly ? <Text color="yellow">[read-only] </Text> : null}
      {`${props.url}  ${snapshot?.pipes.length ?? 0} pipes  ${lanes.length} lanes  `}
      <Text color={stuck > 0 ? 'red' : 'green'}>{`${stuck} stuck`}</Text>
      {`  ${count(pending)} waiting`}
    </Text>
  )
}

function Footer(props: {
  entry: Entry | null
  typed: string
  notice: string
  filter: string
  readOnly: boolean
}) {
  const { entry, typed, notice, filter } = props
  const text =
    entry?.kind === 'skip'
      ? `Skip? [y/N]  The blocking message of ${actions.laneName(entry.lane)} is then not delivered there.`
      : entry?.kind === 'rewind'
        ? `Rewind ${actions.laneName(entry.lane)} to (earliest, stream_seq or time): ${typed}▏`
        : entry?.kind === 'filter'
          ? `Filter: ${typed}▏`
          : notice || `${filter === '' ? '' : `[${filter}]  `}${keyLine(props.readOnly)}`
  return (
    <Text wrap="truncate" dimColor={entry === null && notice === ''} bold={entry !== null}>
      {text}
    </Text>
  )
}

function laneOf(row: Row): actions.Lane | null {
  return row.destination === null ? null : { pipe: row.pipe.pipe, destination: row.destination }
}

/** The blocking message of the lane that is shown in full, looked at anew with every snapshot. */
function useBlocking(client: Client, lane: actions.Lane | null, takenMs: number): Blocking | null {
  const [blocking, setBlocking] = useState<{ id: string; message: Blocking | null } | null>(null)
  const id = lane?.destination.destination_id ?? null
  // biome-ignore lint/correctness/useExhaustiveDependencies: `lane` is a new object with every snapshot
  useEffect(() => {
    if (lane === null || lane.destination.lane.blocking_msg_id === null) {
      setBlocking(null)
      return
    }
    let isCurrent = true
    actions.blockingMessage(client, lane).then(
      (message) => isCurrent && setBlocking({ id: lane.destination.destination_id, message }),
      // A daemon that is away is said in the header; what was shown stays.
      () => {},
    )
    return () => {
      isCurrent = false
    }
  }, [client, id, takenMs])
  return blocking !== null && blocking.id === id ? blocking.message : null
}
