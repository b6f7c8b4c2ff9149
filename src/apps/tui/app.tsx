/**
 * The screen of `pipectl top`: which page is shown, and what the keys do there.
 *
 *   board ──enter──▶ detail      any page ──?──▶ keys ──another key──▶ back
 *     │ /  filter: typing narrows the board; enter keeps it, esc clears it
 *     │ a  shows only lanes with problems, and their pipes; again: everything
 *     │ s, b, p  confirmation: only y executes the action (use-entry.ts, lane-keys.ts)
 *     │ x  the parked records of the lane (use-parked.ts)
 *     └ w  rewind: the user types the position; enter executes it, esc cancels
 *
 * On a wide terminal the detail is shown next to the board. PgDn and PgUp scroll a page that is too long.
 *
 * The screen is always one line lower than the terminal: at full height, ink would clear the terminal for every frame.
 */
import { Box, Text, useApp } from 'ink'
import { useEffect, useState } from 'react'
import type { Client } from '../client/client.ts'
import { clusterOf } from '../client/cluster.ts'
import { causeGroups, withSameCause } from '../client/lane-causes.ts'
import { skipHelps } from '../client/lane-error.ts'
import { cut } from '../client/terminal-text.ts'
import * as actions from './actions.ts'
import { Board } from './board.tsx'
import { type Blocking, Detail } from './detail.tsx'
import { entryLine, Footer } from './footer.tsx'
import { ClusterLine, Header } from './header.tsx'
import { KeysHelp, type KeysOf, keyLines } from './keys-help.tsx'
import { laneKeys, noLaneNotice } from './lane-keys.ts'
import { ParkedPage } from './parked.tsx'
import type { Row } from './rows.ts'
import { type Scroll, useScroll } from './scroll.tsx'
import { useEntry } from './use-entry.ts'
import { type KeyPress, useKeys } from './use-keys.ts'
import { type ParkedView, useParked } from './use-parked.ts'
import { type Selection, useSelection } from './use-selection.ts'
import { type Feed, useAlerts, useSnapshot } from './use-snapshot.ts'

export interface AppProps {
  client: Client
  readOnly: boolean
  width: number
  height: number
  /** Changes when the terminal was cleared. The frame must then differ from the last one, or ink does not draw it. */
  wiped?: number
  everyMs?: number
}

/** From this width on, the board keeps its columns next to the detail. */
const splitWidth = 150
/** Below this height the keys have one line. */
const lowHeight = 12

/** On these pages PgDn and PgUp scroll. On the others they move the selection. */
const scrolledPages: ReadonlySet<KeysOf> = new Set(['detail', 'record', 'keys'])

type PageName = 'board' | 'detail' | 'parked' | 'keys'

export function App({ client, readOnly, width, height, wiped = 0, everyMs = 1000 }: AppProps) {
  const { exit } = useApp()
  const feed = useSnapshot(client, everyMs)
  const alerts = useAlerts(client)
  const [page, setPage] = useState<PageName>('board')
  const [filter, setFilter] = useState('')
  const [showsProblemsOnly, setProblemsOnly] = useState(false)
  const [notice, setNotice] = useState('')
  const selection = useSelection(feed.snapshot, filter, showsProblemsOnly)
  const { row, lane } = selection
  // The clock of the daemon, which also set the times that are compared with it.
  const takenMs = Date.parse(feed.snapshot?.server_ts ?? '')
  const blocking = useBlocking(client, page === 'detail' ? lane : null, takenMs)
  const act = (what: Promise<string>) => {
    setNotice('…')
    what.then(setNotice, (error) => setNotice(actions.failureLine(error))).finally(feed.refresh)
  }
  const onParked = { readOnly, act, notify: setNotice, close: () => setPage('board') }
  const parked = useParked(client, { lane: page === 'parked' ? lane : null, takenMs }, onParked)
  const asked = useEntry({ client, act, notify: setNotice, setFilter })
  const { keysOf, scroll } = useShown(page, row, parked)
  const keys: Record<string, (pressed: KeyPress) => void> = {
    x: () => (lane === null ? setNotice(noLaneNotice) : setPage('parked')),
    escape: () => setPage('board'),
    left: () => setPage('board'),
    return: () => setPage('detail'),
    right: () => setPage('detail'),
    '/': () => {
      setPage('board')
      asked.begin({ kind: 'filter' }, filter)
    },
    n: () => selection.selectNextTroubled() || setNotice('No lane needs attention.'),
    a: () => setProblemsOnly(!showsProblemsOnly),
    ...laneKeys({ client, readOnly, row, lane, act, notify: setNotice, begin: asked.begin }),
  }
  const onPageKey = (pressed: KeyPress) => {
    if (page === 'keys') setPage('board')
    else if (pressed === '?') setPage('keys')
    else if (page === 'parked') parked.onKey(pressed)
    else (keys[pressed] ?? selection.onKey)(pressed)
  }
  useKeys((pressed) => {
    if (asked.entry !== null) return asked.onKey(asked.entry, pressed)
    setNotice('')
    if (parked.question !== null) parked.onKey(pressed)
    else if (pressed === 'q') exit()
    else if (!scroll.onKey(pressed)) onPageKey(pressed)
  })

  const cluster = feed.snapshot === null ? null : clusterOf(feed.snapshot)
  const canSkip = lane === null || skipHelps(lane.destination.lane)
  const before = page === 'board' ? filterWords(filter, showsProblemsOnly) : ''
  const footer = keyLines({ page: keysOf, readOnly, canSkip, before }, width, height < lowHeight ? 1 : 2)
  // The header (two lines in a cluster), the keys, and the line that ink needs.
  const headHeight = cluster === null ? 1 : 2
  const bodyHeight = Math.max(3, height - 1 - footer.length - headHeight)
  const asks = asked.entry === null ? parked.question : entryLine(asked.entry, asked.typed)
  return (
    <Box
      {...{ flexDirection: 'column', width, overflow: 'hidden' }}
      height={bodyHeight + footer.length + headHeight}
    >
      <Header {...{ url: client.url, feed, alerts, readOnly, wiped, width }} />
      {cluster === null ? null : <ClusterLine cluster={cluster} />}
      <Body
        {...{ page, feed, selection, blocking, parked, readOnly, width, scroll }}
        height={bodyHeight}
        nowMs={takenMs}
        showsNodes={cluster !== null}
        whyEmpty={whyEmpty(filter, showsProblemsOnly)}
      />
      <Footer asks={asks} notice={notice} keys={footer} />
    </Box>
  )
}

/** The table of keys for the page, and how far it is scrolled. */
function useShown(
  page: PageName,
  row: Row | null,
  { shown }: ParkedView,
): { keysOf: KeysOf; scroll: Scroll } {
  const keysOf = page === 'parked' && shown !== null ? 'record' : page
  const content = `${keysOf} ${row?.id} ${shown?.parked.parked_id}`
  return { keysOf, scroll: useScroll(scrolledPages.has(keysOf) ? content : null) }
}

/** Empty: everything is shown. */
function filterWords(filter: string, showsProblemsOnly: boolean): string {
  const words = [filter, showsProblemsOnly ? 'problems only' : ''].filter((one) => one !== '').join(', ')
  return words === '' ? '' : `[${cut(words, 30)}]`
}

function whyEmpty(filter: string, showsProblemsOnly: boolean): string {
  if (showsProblemsOnly) return 'No lane has a problem; a shows all.'
  return filter === '' ? 'No pipes yet: pipectl pipes create NAME' : 'Nothing matches the filter.'
}

interface BodyProps {
  page: PageName
  feed: Feed
  selection: Selection
  blocking: Blocking | null
  parked: ParkedView
  readOnly: boolean
  scroll: Scroll
  width: number
  height: number
  /** By the daemon's clock. */
  nowMs: number
  /** It is a cluster. */
  showsNodes: boolean
  /** The text of a board without rows. */
  whyEmpty: string
}

function Body(props: BodyProps) {
  const { page, feed, selection, parked, height, width, nowMs, scroll } = props
  const { rows, row, lane } = selection
  if (feed.snapshot === null)
    return <Line text={feed.staleBecause === null ? 'Connecting to the daemon…' : ''} height={height} />
  const full = { width, height, scroll }
  if (page === 'keys') return <KeysHelp readOnly={props.readOnly} {...full} />
  if (page === 'parked' && lane !== null)
    return <ParkedPage name={actions.laneName(lane)} view={parked} nowMs={nowMs} {...full} />
  const detailWidth = width < splitWidth ? width : width - boardWidth(width) - 2
  const detail =
    page === 'detail' && row !== null ? (
      <Detail
        row={row}
        blocking={props.blocking}
        nowMs={nowMs}
        sameCause={withSameCause(causeGroups(feed.snapshot), row.id).length}
        {...full}
        width={detailWidth}
      />
    ) : null
  if (detail !== null && width < splitWidth) return detail
  if (rows.length === 0) return <Line text={props.whyEmpty} height={height} />
  return (
    <Box height={height}>
      <Board
        rows={rows}
        rates={feed.rates}
        showsNodes={props.showsNodes}
        selectedId={row?.id ?? null}
        width={page === 'detail' ? boardWidth(width) : width}
        height={height}
      />
      {detail === null ? null : (
        <Box marginLeft={2} width={detailWidth}>
          {detail}
        </Box>
      )}
    </Box>
  )
}

function Line({ text, height }: { text: string; height: number }) {
  return (
    <Box height={height}>
      <Text>{text}</Text>
    </Box>
  )
}

/** Next to a detail: half of the screen, but not more than a board needs. */
function boardWidth(width: number): number {
  return Math.min(Math.floor(width / 2), 90)
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
