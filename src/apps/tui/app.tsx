/**
 * The screen of `pipectl top`: which page is shown, and what the keys do there.
 *
 *   board ──enter──▶ detail      any page ──?──▶ keys ──any key──▶ back
 *     │ /  filter: typing narrows the board; enter keeps it, esc clears it
 *     │ a  shows only lanes with problems, and their pipes; again: everything
 *     │ s, b, p  confirmation: only y executes the action
 *     │ x  the parked records of the lane (use-parked.ts)
 *     └ w  rewind: the user types the position; enter executes it, esc cancels
 *
 * On a wide terminal the detail is shown next to the board.
 *
 * The screen is always one line lower than the terminal: at full height, ink would clear the terminal for every frame.
 */
import { Box, Text, useApp } from 'ink'
import { useEffect, useState } from 'react'
import type { AlertsShown } from '../../contract/alerts.ts'
import type { OverviewPipe } from '../../contract/overview.ts'
import { needAttention, needsAttention } from '../../contract/state-words.ts'
import { count, counted } from '../../platform/quantities.ts'
import { areAlertsFailing } from '../client/alerts.ts'
import type { Client } from '../client/client.ts'
import { clusterOf } from '../client/cluster.ts'
import { skipHelps } from '../client/lane-error.ts'
import { printable } from '../client/printable.ts'
import * as actions from './actions.ts'
import { Board } from './board.tsx'
import { ClusterLine } from './cluster-line.tsx'
import { type Blocking, Detail } from './detail.tsx'
import { KeysHelp, keyLine, parkedKeyLine } from './keys-help.tsx'
import { ParkedPage } from './parked.tsx'
import { nextTroubled, type Row, rowsOf } from './rows.ts'
import { useAlerts } from './use-alerts.ts'
import { type KeyPress, movesIn, useKeys } from './use-keys.ts'
import { useParked } from './use-parked.ts'
import { useSnapshot } from './use-snapshot.ts'

export interface AppProps {
  client: Client
  readOnly: boolean
  width: number
  height: number
  /** Changes when the terminal was cleared. The frame must then differ from the last one, or ink does not draw it. */
  wiped?: number
  everyMs?: number
}

type Entry =
  | { kind: 'filter' }
  | { kind: 'rewind'; lane: actions.Lane }
  | { kind: 'skip'; lane: actions.Lane }
  | { kind: 'block'; lane: actions.Lane }
  | { kind: 'pause'; pipe: OverviewPipe }

/** From this width on, the board keeps its columns next to the detail. */
const splitWidth = 150

const readOnlyNotice = 'This screen is read-only.'
const noLaneNotice = 'Choose a lane first: a line below a pipe.'
// Fits into 80 columns.
const skipWontHelpNotice = 'Skipping does not help: no record is at fault. Fix the destination, then r.'

export function App({ client, readOnly, width, height, wiped = 0, everyMs = 1000 }: AppProps) {
  const { exit } = useApp()
  const feed = useSnapshot(client, everyMs)
  const alerts = useAlerts(client)
  const [selectedId, select] = useState<string | null>(null)
  const [page, setPage] = useState<'board' | 'detail' | 'parked' | 'keys'>('board')
  const [filter, setFilter] = useState('')
  const [showsProblemsOnly, setProblemsOnly] = useState(false)
  const [entry, setEntry] = useState<Entry | null>(null)
  const [typed, setTyped] = useState('')
  const [notice, setNotice] = useState('')
  const rows = feed.snapshot === null ? [] : rowsOf(feed.snapshot, filter, showsProblemsOnly)
  const row = rows.find((one) => one.id === selectedId) ?? rows[0] ?? null
  // Selects the first row only once. A selection that moves by itself could lead to an action on the wrong row.
  const isLoaded = feed.snapshot !== null
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  useEffect(() => {
    if (isLoaded) select((chosen) => chosen ?? nextTroubled(rows, null)?.id ?? null)
  }, [isLoaded])
  const lane = row === null ? null : laneOf(row)
  // The clock of the daemon, which also set the times that are compared with it.
  const takenMs = Date.parse(feed.snapshot?.server_ts ?? '')
  const blocking = useBlocking(client, page === 'detail' ? lane : null, takenMs)

  const act = (what: Promise<string>) => {
    setNotice('…')
    what.then(setNotice, (error) => setNotice(actions.failureLine(error))).finally(feed.refresh)
  }
  const parked = useParked(client, page === 'parked' ? lane : null, takenMs, {
    readOnly,
    act,
    notify: setNotice,
    close: () => setPage('board'),
  })
  const endEntry = () => {
    setEntry(null)
    setTyped('')
  }
  const onLane = (what: (lane: actions.Lane) => void) => {
    if (readOnly) setNotice(readOnlyNotice)
    else if (lane === null) setNotice(noLaneNotice)
    else what(lane)
  }
  const move = (by: number) => {
    const at = rows.findIndex((one) => one.id === row?.id)
    select(rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.id ?? null)
  }
  const selectNextTroubled = () => {
    const next = nextTroubled(rows, row?.id ?? null)
    if (next === null) setNotice('No lane needs attention.')
    else select(next.id)
  }

  const onEntryKey = (current: Entry, pressed: KeyPress) => {
    if (current.kind === 'skip' || current.kind === 'block' || current.kind === 'pause') {
      endEntry()
      const isYes = pressed === 'y' || pressed === 'Y'
      if (!isYes) setNotice(current.kind === 'skip' ? 'Not skipped.' : 'Not changed.')
      else if (current.kind === 'skip') act(actions.skip(client, current.lane))
      else if (current.kind === 'block') act(actions.toggleBlocked(client, current.lane))
      else act(actions.togglePaused(client, current.pipe))
    } else if (pressed === 'escape') {
      if (current.kind === 'filter') setFilter('')
      endEntry()
    } else if (pressed === 'return') {
      if (current.kind === 'rewind' && typed !== '') act(actions.rewind(client, current.lane, typed))
      endEntry()
    } else if (pressed === 'erase' || pressed.length === 1) {
      const text = pressed === 'erase' ? typed.slice(0, -1) : typed + pressed
      setTyped(text)
      if (current.kind === 'filter') setFilter(text)
    }
  }
  const showParked = () => {
    if (lane === null) setNotice(noLaneNotice)
    else setPage('parked')
  }
  const changes: Record<string, () => void> = {
    s: () =>
      onLane((chosen) => {
        if (skipHelps(chosen.destination.lane)) setEntry({ kind: 'skip', lane: chosen })
        else setNotice(skipWontHelpNotice)
      }),
    w: () => onLane((chosen) => setEntry({ kind: 'rewind', lane: chosen })),
    r: () => onLane((chosen) => act(actions.retry(client, chosen))),
    b: () =>
      onLane((chosen) => {
        if (chosen.destination.destination_status === 'active') setEntry({ kind: 'block', lane: chosen })
        else act(actions.toggleBlocked(client, chosen))
      }),
    p: () => {
      if (readOnly) setNotice(readOnlyNotice)
      else if (row !== null) setEntry({ kind: 'pause', pipe: row.pipe })
    },
  }
  const moves = movesIn(rows.length)

  useKeys((pressed) => {
    if (entry !== null) return onEntryKey(entry, pressed)
    setNotice('')
    if (pressed === 'q' && parked.question === null) exit()
    else if (page === 'keys') setPage('board')
    else if (pressed === '?' && parked.question === null) setPage('keys')
    else if (page === 'parked') parked.onKey(pressed)
    else if (pressed === 'x') showParked()
    else if (pressed === 'escape' || pressed === 'left') setPage('board')
    else if (pressed === 'return' || pressed === 'right') setPage('detail')
    else if (pressed === '/') {
      setPage('board')
      setTyped(filter)
      setEntry({ kind: 'filter' })
    } else if (pressed === 'n') selectNextTroubled()
    else if (pressed === 'a') setProblemsOnly(!showsProblemsOnly)
    else if (moves[pressed] !== undefined) move(moves[pressed])
    else changes[pressed]?.()
  })

  const cluster = feed.snapshot === null ? null : clusterOf(feed.snapshot)
  // The header (two lines in a cluster), the status line, and the line that ink needs.
  const headHeight = cluster === null ? 1 : 2
  const bodyHeight = Math.max(3, height - 2 - headHeight)
  return (
    <Box flexDirection="column" width={width} height={bodyHeight + 1 + headHeight} overflow="hidden">
      <Header url={client.url} feed={feed} alerts={alerts} readOnly={readOnly} wiped={wiped} />
      {cluster === null ? null : <ClusterLine cluster={cluster} />}
      {feed.snapshot === null ? (
        <Box height={bodyHeight}>
          <Text>{feed.staleBecause === null ? 'Connecting to the daemon…' : ''}</Text>
        </Box>
      ) : page === 'keys' ? (
        <KeysHelp height={bodyHeight} readOnly={readOnly} />
      ) : page === 'parked' && lane !== null ? (
        <ParkedPage name={actions.laneName(lane)} view={parked} height={bodyHeight} nowMs={takenMs} />
      ) : page === 'detail' && row !== null && width < splitWidth ? (
        <Detail row={row} blocking={blocking} height={bodyHeight} nowMs={takenMs} />
      ) : rows.length === 0 ? (
        <Box height={bodyHeight}>
          <Text>
            {showsProblemsOnly
              ? 'No lane has a problem; a shows all.'
              : filter === ''
                ? 'No pipes yet: pipectl pipes create NAME'
                : 'Nothing matches the filter.'}
          </Text>
        </Box>
      ) : (
        <Box height={bodyHeight}>
          <Board
            rows={rows}
            rates={feed.rates}
            showsNodes={cluster !== null}
            selectedId={row?.id ?? null}
            width={page === 'detail' ? boardWidth(width) : width}
            height={bodyHeight}
          />
          {page === 'detail' && row !== null ? (
            <Box marginLeft={2} width={width - boardWidth(width) - 2}>
              <Detail row={row} blocking={blocking} height={bodyHeight} nowMs={takenMs} />
            </Box>
          ) : null}
        </Box>
      )}
      {page === 'parked' && entry === null ? (
        <ParkedFooter question={parked.question} notice={notice} readOnly={readOnly} width={width} />
      ) : (
        <Footer
          entry={entry}
          typed={typed}
          notice={notice}
          filter={[filter, ...(showsProblemsOnly ? ['problems only'] : [])].filter(Boolean).join(', ')}
          readOnly={readOnly}
          width={width}
          canSkip={lane === null || skipHelps(lane.destination.lane)}
        />
      )}
    </Box>
  )
}

function Header(props: {
  url: string
  feed: ReturnType<typeof useSnapshot>
  alerts: AlertsShown | null
  readOnly: boolean
  wiped: number
}) {
  const { snapshot, staleBecause } = props.feed
  const nowMs = Date.parse(snapshot?.server_ts ?? '')
  const lanes = snapshot?.pipes.flatMap((one) => one.lanes) ?? []
  const stale = lanes.filter((one) => one.lane.stale === true).length
  const troubled = lanes.filter((one) => needsAttention(one, nowMs)).length
  const pending = snapshot?.pipes.reduce((sum, one) => sum + one.pending_messages, 0) ?? 0
  return (
    <Text wrap="truncate">
      <Text bold>pipectl</Text>
      {/* Alternates between two kinds of space; see `wiped`. */}
      {props.wiped % 2 === 0 ? ' ' : '\u00a0'}
      {staleBecause === null ? null : (
        <Text inverse color="red">
          {' STALE '}
        </Text>
      )}
      {staleBecause === null ? null : <Text color="red">{` ${staleBecause} `}</Text>}
      {props.readOnly ? <Text color="yellow">[read-only] </Text> : null}
      {`${props.url}  ${counted(snapshot?.pipes.length ?? 0, 'pipe')}  ${counted(lanes.length, 'lane')}  `}
      <Text color={troubled > 0 ? 'red' : 'green'}>{needAttention(troubled)}</Text>
      {`  ${count(pending)} pending`}
      <AlertsWord alerts={props.alerts} />
      {stale === 0 ? null : <Text color="yellow">{`  ${stale} stale: delivery does not respond`}</Text>}
    </Text>
  )
}

/** Short if there is no problem, because a narrow terminal truncates the line. */
function AlertsWord({ alerts }: { alerts: AlertsShown | null }) {
  if (alerts === null) return null
  if (alerts.alerts === null) return <Text dimColor>{'  no alerts'}</Text>
  const failure = areAlertsFailing(alerts) ? alerts.status?.last_failure : null
  if (!failure) return <Text dimColor>{'  alerts on'}</Text>
  return <Text color="yellow">{`  alerts not sent: ${printable(failure.message)}`}</Text>
}

function Footer(props: {
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
  const text =
    entry?.kind === 'skip'
      ? `Skip? [y/N]  Parks the blocking message of ${actions.laneName(entry.lane)}; the lane continues.`
      : entry?.kind === 'block'
        ? `Block ${actions.laneName(entry.lane)}? [y/N]  Deliveries stop; the backlog is kept.`
        : entry?.kind === 'pause'
          ? pauseQuestion(entry.pipe)
          : entry?.kind === 'rewind'
            ? `Rewind ${actions.laneName(entry.lane)} to (earliest, stream_seq or time): ${typed}▏`
            : entry?.kind === 'filter'
              ? `Filter: ${typed}▏`
              : notice || `${filtered}${keyLine(props.readOnly, width - filtered.length, props.canSkip)}`
  return (
    <Text wrap="truncate" dimColor={entry === null && notice === ''} bold={entry !== null}>
      {text}
    </Text>
  )
}

function ParkedFooter(props: { question: string | null; notice: string; readOnly: boolean; width: number }) {
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

/** Next to a detail: half of the screen, but not more than a board needs. */
function boardWidth(width: number): number {
  return Math.min(Math.floor(width / 2), 90)
}

function laneOf(row: Row): actions.Lane | null {
  return row.destination === null ? null : { pipe: row.pipe, destination: row.destination }
}

/** The blocking message of the selected lane, loaded again with every snapshot. */
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
      // The header reports that the daemon does not respond. The last content stays.
      () => {},
    )
    return () => {
      isCurrent = false
    }
  }, [client, id, takenMs])
  return blocking !== null && blocking.id === id ? blocking.message : null
}
