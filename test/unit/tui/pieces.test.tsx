import { Box } from 'ink'
import { render } from 'ink-testing-library'
import t from 'tap'
import { laneRows } from '../../../src/apps/cli/lanes.ts'
import { stateOf } from '../../../src/apps/client/workspace.ts'
import { Board } from '../../../src/apps/tui/board.tsx'
import { Detail } from '../../../src/apps/tui/detail.tsx'
import { ClusterLine, Header } from '../../../src/apps/tui/header.tsx'
import { KeysHelp, type KeysOf, keyLines } from '../../../src/apps/tui/keys-help.tsx'
import { nextRates, sparkline } from '../../../src/apps/tui/rates.ts'
import { nextTroubled, rowsOf, visible } from '../../../src/apps/tui/rows.ts'
import { keyPressesOf } from '../../../src/apps/tui/use-keys.ts'
import type { LaneStatus } from '../../../src/contract/destination.ts'
import type { Overview, OverviewLane, OverviewPipe } from '../../../src/contract/overview.ts'
import type { ReplicaFacts } from '../../../src/contract/replica-facts.ts'

/** A page at its first line. */
const scroll = { from: 0, limit: () => {}, onKey: () => false }
const server_ts = '2026-01-01T00:00:00Z'
const nowMs = Date.parse(server_ts)

const idle: LaneStatus = {
  lane_state: 'idle',
  cursor_seq: 5,
  head_seq: 5,
  pending_messages: 0,
  pending_bytes: 0,
  oldest_pending_age_seconds: 0,
  blocking_msg_id: null,
  attempts: 0,
  first_failed_ts: null,
  next_attempt_ts: null,
  last_error: null,
  last_delivered_ts: null,
  delivered_records: 0,
  skipped_messages: 0,
  dropped_messages: 0,
}
const stuck: LaneStatus = {
  ...idle,
  lane_state: 'retrying',
  pending_messages: 1234,
  pending_bytes: 2048,
  oldest_pending_age_seconds: 185,
  blocking_msg_id: '018f0000-0000-7000-8000-000000000001',
  last_error: {
    ...{ class: 'permanent', code: '22P02', message: 'bad \x1b[2Jnumber' },
    ...{ fault: 'records', record_index: 3, column: 'n', value: 'x' },
  },
}

function destination(id: string, lane: LaneStatus): OverviewLane {
  return {
    destination_id: id,
    destination_type: 'destination_http_endpoint',
    destination_status: 'active',
    destination_name: 'hook-of-the-shop',
    destination_target: 'http://x/',
    destination_server: 'x',
    lane,
  }
}
const noUsage = {
  ...{ ingest_requests: 0, ingest_records: 0, ingest_bytes: 0, rejected_requests: 0 },
  ...{ delivered_records: 0, failed_attempts: 0, skipped_records: 0, filtered_records: 0 },
}
function pipe(name: string, ...lanes: OverviewLane[]): OverviewPipe {
  return {
    ...{ pipe_id: `id-${name}`, pipe_name: name, pipe_description: '', pipe_status: 'active' },
    ...{ usage_today: noUsage, counters: noUsage, last_ingest_ts: null },
    ...{ pending_messages: 0, pending_bytes: 0, node_name: null, lanes },
  }
}
const pipes = [
  pipe('alpha', destination('d-a', idle)),
  pipe('omega', destination('d-1', idle), destination('d-2', stuck)),
]

t.test('lanes in trouble come first, with their pipe; the filter narrows', async (t) => {
  t.same(
    rowsOf({ pipes, server_ts }, '').map((row) => row.id),
    ['id-omega', 'd-2', 'd-1', 'id-alpha', 'd-a'],
  )
  t.same(
    rowsOf({ pipes, server_ts }, 'ALPH').map((row) => row.id),
    ['id-alpha', 'd-a'],
  )
  t.same(
    rowsOf({ pipes, server_ts }, 'stuck').map((row) => row.pipe.pipe_name),
    ['omega', 'omega', 'omega'],
  )
})

t.test('the board shows state, backlog, age and rate, and fits any width and height', async (t) => {
  const rows = rowsOf({ pipes, server_ts }, '')
  const rates = new Map([['d-2', [0, 5, 10]]])
  for (const width of [30, 50, 60, 72, 80, 200]) {
    for (const height of [2, 4, 21]) {
      const { lastFrame, unmount } = render(
        <Board rows={rows} rates={rates} selectedId="d-2" width={width} height={height} />,
      )
      const lines = (lastFrame() ?? '').split('\n')
      t.ok(lines.length <= height, `${width}×${height}: ${lines.length} lines`)
      for (const line of lines) t.ok(line.length <= width, `${width}×${height}: ${line.length} wide`)
      t.ok(
        lines.some((line) => line.includes('▶')),
        'the selected line is in view',
      )
      unmount()
    }
  }
  const { lastFrame } = render(<Board rows={rows} rates={rates} selectedId="d-2" width={80} height={10} />)
  t.match(lastFrame(), /▶ +hook-of-the-shop +■ stuck +1,234 +2\.0 KiB +3m 5s +10$/m)
  const wide = render(<Board rows={rows} rates={rates} selectedId="d-2" width={100} height={10} />)
  t.match(wide.lastFrame(), /▶ +hook-of-the-shop +■ stuck +1,234 +2\.0 KiB +3m 5s +10 +▁▅█/)
})

t.test('names are shown in full before sizes and charts get room', async (t) => {
  const name = 'warehouse-of-the-shop-in-europe'
  const longName = { ...destination('d-2', { ...stuck, parked_records: 12 }), destination_name: name }
  const rows = rowsOf({ pipes: [pipe('omega', longName)], server_ts }, '')
  const board = (width: number) => {
    const { lastFrame, unmount } = render(
      <Board rows={rows} rates={new Map([['d-2', [1, 2]]])} selectedId="d-2" width={width} height={4} />,
    )
    const frame = lastFrame() ?? ''
    unmount()
    return frame
  }
  t.match(board(80), / {2}warehouse-of-the-shop-in\S*… 12 parked ■ stuck +1,234 +3m 5s +2$/m)
  t.match(board(100), / {2}warehouse-of-the-shop-in-europe 12 parked +■ stuck +1,234 +2\.0 KiB/)
  t.match(board(140), / {2}warehouse-of-the-shop-in-europe 12 parked ■ stuck .* ▅█ 22P02: bad/)
})

t.test('stuck, retrying and blocked lanes differ in sign, word and order, without colours too', async (t) => {
  const first_failed_ts = new Date(nowMs - 60_000).toISOString()
  const retrying: LaneStatus = { ...stuck, attempts: 1, last_error: null }
  const lanes = [
    destination('d-idle', idle),
    destination('d-retrying', retrying),
    destination('d-failing', { ...retrying, attempts: 9, first_failed_ts }),
    destination('d-blocked', { ...idle, lane_state: 'blocked' }),
    destination('d-stuck', stuck),
  ]
  const snapshot = { server_ts, pipes: [pipe('omega', ...lanes)] }
  const rows = rowsOf(snapshot, '')
  t.same(
    rows.map(({ id }) => id),
    ['id-omega', 'd-stuck', 'd-blocked', 'd-failing', 'd-retrying', 'd-idle'],
  )
  const { lastFrame } = render(
    <Board rows={rows} rates={new Map()} selectedId="d-stuck" width={80} height={10} />,
  )
  t.match(lastFrame()?.match(/[■○▲–●] \w+/g), [
    '● active',
    '■ stuck',
    '○ blocked',
    '▲ retrying',
    '▲ retrying',
    '– idle',
  ])
  const header = (width: number, lanesOf = lanes, replica: Partial<ReplicaFacts> | null = null) => {
    const overview = { ...snapshot, pipes: [pipe('omega', ...lanesOf)], service: { replica } } as Overview
    const shown = render(
      <Box width={width}>
        <Header
          feed={{ snapshot: overview, rates: new Map(), staleBecause: null }}
          {...{ url: 'http://127.0.0.1:8080', alerts: null, readOnly: false, wiped: 0, width }}
        />
      </Box>,
    )
    const line = shown.lastFrame() ?? ''
    shown.unmount()
    return line
  }
  t.match(
    header(120),
    /^pipectl http\S+ {2}■ 1 stuck {2}▲ 2 retrying {2}○ 1 blocked {2}0 pending {2}1 pipe {2}5 lanes$/,
  )
  t.match(header(80), /^pipectl http\S+ {2}■ 1 stuck {2}▲ 2 retrying {2}○ 1 blocked {2}0 pending$/)
  t.equal(header(50), 'pipectl ■ 1 stuck  ▲ 2 retrying  ○ 1 blocked')
  t.match(header(80, [destination('d-idle', idle)]), /no problems/)
  const replica = { replica_state: 'failing', error_code: 'SlowDown', lag_seconds: 400 } as const
  t.match(header(140, lanes, replica), /5 lanes {2}replica: failing \(SlowDown\), 6m 40s behind$/)
  const sound = { replica_state: 'ok', lag_seconds: 1, snapshot_ts: '2026-11-28T12:00:00Z' } as const
  t.notMatch(header(140, lanes, sound), /replica/)
})

t.test('a lane as it was last saved is marked on the board, in the detail and in tables', async (t) => {
  const stale = destination('d-2', { ...stuck, stale: true })
  const rows = rowsOf({ server_ts, pipes: [pipe('omega', stale)] }, '')
  const board = render(
    <Board rows={rows} rates={new Map()} selectedId="d-2" width={60} height={10} />,
  ).lastFrame()
  t.match(board, / ■ stuck\? /)
  const row = rows.find((one) => one.id === 'd-2')
  if (row === undefined) throw new Error('no such row')
  const detail = render(
    <Detail row={row} blocking={null} {...{ width: 100, height: 22, scroll }} nowMs={0} />,
  ).lastFrame()
  t.match(detail, /state +■ stuck, as saved last: delivery does not respond/)
  t.equal(stateOf(stale), 'stuck (stale)')
  t.equal(stateOf(destination('d-2', stuck)), 'stuck')
  t.equal(stateOf(destination('d-2', { ...stuck, last_error: null })), 'retrying', 'not rejected')
  const times = {
    destination_created_ts: '2026-01-01T00:00:00Z',
    destination_updated_ts: '2026-01-01T00:00:00Z',
  }
  const whole = {
    ...{ ...stale, ...times, pipe_id: 'p', flush: null, rate: null },
    ...{
      destination_max_retry_seconds: 1,
      on_permanent_error: 'block' as const,
      destination_config: { url: 'http://x/' },
    },
  }
  const tableRows = laneRows({ destination: whole }, 0)
  t.strictSame(
    tableRows.find(([name]) => name === 'lane_state'),
    ['lane_state', 'stuck (stale)'],
  )
})

t.test('a lane whose retries have failed for a minute is still retrying, and is found by n', async (t) => {
  const first_failed_ts = new Date(nowMs - 60_000).toISOString()
  const failing = { ...stuck, attempts: 2, first_failed_ts, last_error: null }
  const shown = [pipe('omega', destination('d-2', failing)), pipe('alpha', destination('d-a', idle))]
  const rows = rowsOf({ pipes: shown, server_ts }, '')
  const board = render(<Board rows={rows} rates={new Map()} selectedId="d-a" width={60} height={10} />)
  t.match(board.lastFrame(), / retrying /)
  t.equal(nextTroubled(rows, null)?.id, 'd-2')
  t.equal(
    nextTroubled(rowsOf({ pipes: shown, server_ts: new Date(nowMs - 1).toISOString() }, ''), null),
    null,
  )
  t.equal(rowsOf({ pipes: shown, server_ts }, 'retrying').length, 2)
})

t.test('the board can show only the lanes that have problems', async (t) => {
  t.same(
    rowsOf({ pipes, server_ts }, '', true).map((row) => row.id),
    ['id-omega', 'd-2'],
  )
  t.same(rowsOf({ pipes: [pipe('alpha', destination('d-a', idle))], server_ts }, '', true), [])
})

t.test('the detail of a lane shows error and records, harmless for the terminal', async (t) => {
  const row = rowsOf({ pipes, server_ts }, '').find((one) => one.id === 'd-2')
  if (row === undefined) throw new Error('no such row')
  const blocking = {
    msgId: 'm-1',
    streamSeq: 6,
    receivedTs: '2026-01-01T00:00:00Z',
    recordsCount: 1,
    records: ['{"n":1.10}'],
  }
  const { lastFrame } = render(
    <Detail
      row={row}
      blocking={{ ...blocking, from: 17, refused: 17 }}
      {...{ width: 100, height: 22, scroll }}
      nowMs={Date.parse('2026-01-01T00:05:00Z')}
    />,
  )
  t.match(lastFrame(), /error +permanent 22P02: bad \ufffd\[2Jnumber/)
  t.match(lastFrame(), /blocking message +m-1 {2}stream_seq 6/)
  t.match(lastFrame(), /17 rejected +\{"n":1\.10\}/)
  t.match(lastFrame(), /received +5m ago \(2026-01-01T00:00:00Z\)/)
})

t.test('a pipe says what happens to records that do not match its schema', async (t) => {
  const shown = (more: Partial<OverviewPipe>) => {
    const row = rowsOf({ server_ts, pipes: [{ ...pipe('checked'), ...more }] }, '')[0]!
    return render(<Detail row={row} blocking={null} {...{ width: 100, height: 22, scroll }} nowMs={0} />)
  }
  t.match(shown({ schema_on_mismatch: 'park' }).lastFrame(), /schema +records that do not match are parked/)
  t.match(shown({}).lastFrame(), /schema +-/)
})

t.test('a detail says which record, column and value were refused, and what is at fault', async (t) => {
  const row = rowsOf({ server_ts, pipes: [pipe('refused', destination('d', stuck))] }, '')[1]!
  const { lastFrame } = render(
    <Box width={120}>
      <Detail row={row} blocking={null} {...{ width: 120, height: 20, scroll }} nowMs={0} />
    </Box>,
  )
  t.match(lastFrame(), /error +permanent 22P02: bad .* \[record_index 3, column "n", value "x"\]/)
  t.match(lastFrame(), /at fault +the records: /)
})

t.test('a long detail is wrapped and scrolls; nothing of it is cut at 60 columns', async (t) => {
  const words = Array.from({ length: 40 }, (_, index) => `word-${index}`).join(' ')
  const lane = {
    ...stuck,
    last_error: {
      ...{ class: 'permanent', code: 'x', message: words },
      ...{ fault: 'destination', record_index: null, column: null, value: null },
    },
  } satisfies LaneStatus
  const row = rowsOf({ server_ts, pipes: [pipe('long', destination('d', lane))] }, '')[1]!
  let limit = 0
  const shown = (from: number) => {
    const { lastFrame, unmount } = render(
      <Box width={60}>
        <Detail
          row={row}
          blocking={null}
          {...{ width: 60, height: 8, nowMs: 0 }}
          scroll={{ ...scroll, from, limit: (last) => (limit = last) }}
        />
      </Box>,
    )
    const lines = (lastFrame() ?? '').split('\n')
    unmount()
    t.ok(lines.length <= 8)
    t.ok(lines.every((line) => line.length <= 60))
    return lines
  }
  const first = shown(0)
  t.match(first[0], /^lane +long\/hook-of-the-shop$/)
  t.match(first[1], /^target +http-endpoint +http:\/\/x\/$/)
  t.match(first[4], /^ {18}word-/, 'continued below its beginning')
  t.match(first[7], /^▼ \d+ more lines: PgDn$/)
  const all = Array.from({ length: limit + 1 }, (_, from) => shown(from).slice(0, -1)).flat()
  for (const wanted of words.split(' '))
    t.ok(
      all.some((line) => line.includes(wanted)),
      wanted,
    )
  t.ok(all.some((line) => line.includes('the destination: no record is at fault')))
  t.same(shown(limit + 50), shown(limit), 'it ends with its last line')
  t.match(shown(limit).at(-1), /the end; PgUp goes back/)
})

t.test('of a cluster: its nodes on a line, and in the line of a pipe the one that has it', async (t) => {
  const { lastFrame, unmount } = render(
    <Box width={80}>
      <ClusterLine
        cluster={{
          nodes: [
            { node_name: 'a', node_state: 'live', owned_pipes: 2, is_this: true },
            { node_name: 'b', node_state: 'draining', owned_pipes: 1, is_this: false },
            { node_name: 'c\u001b[2J', node_state: 'expired', owned_pipes: 3, is_this: false },
          ],
          unowned_pipes: 1,
        }}
      />
    </Box>,
  )
  const line = lastFrame() ?? ''
  t.match(line, 'nodes  ● a 2  ▲ b 1 draining  ■ c')
  t.match(line, ' 3 expired  1 pipe without a node')
  t.notMatch(line, '\u001b[2J', 'what a name holds acts on no terminal')
  unmount()
  const rows = rowsOf(
    { pipes: [{ ...pipe('alpha', destination('d-a', idle)), node_name: 'a' }, pipe('beta')], server_ts },
    '',
  )
  const board = (width: number, showsNodes: boolean) => {
    const shown = render(
      <Board rows={rows} rates={new Map()} selectedId="d-a" height={6} {...{ width, showsNodes }} />,
    )
    const lines = (shown.lastFrame() ?? '').split('\n')
    shown.unmount()
    return lines
  }
  t.match(board(80, true), [
    /STATE +NODE +BACKLOG/,
    /alpha +● active +a +0/,
    /pull|hook/,
    /beta +● active +- +0/,
  ])
  t.notMatch(board(80, false)[0], 'NODE')
  t.notMatch(board(40, true)[0], 'NODE', 'on a narrow screen it gives way')
})

t.test('rates are differences over time; a counter that goes back is no movement', async (t) => {
  const at = (ms: number, delivered: number): Overview => ({
    ...{ revision: '', since: null, removed_pipe_ids: [] },
    server_ts: new Date(ms).toISOString(),
    pipes: [pipe('a', destination('d', { ...idle, delivered_records: delivered }))],
    cluster: null,
    buffer: {
      ...{ size_bytes: 0, max_bytes: 1, free_disk_bytes: 1, min_free_disk_bytes: 0 },
      ...{ oldest_ts: null, unavailable_reason: null },
    },
    service: {
      ...{ version: '1', started_ts: '2026-01-01T00:00:00Z', is_ready: true, reasons: [], warnings: [] },
      ...{ http_engine: 'uws', ingest_workers: 1, delivery_restarts: 0, egress_private: 'allow' },
      replica: null,
    },
  })
  let rates = nextRates(new Map(), null, at(0, 100))
  t.same(rates.get('d'), [])
  rates = nextRates(rates, at(0, 100), at(2000, 150))
  rates = nextRates(rates, at(2000, 150), at(3000, 20))
  t.same(rates.get('d'), [25, 0])
  for (let i = 0; i < 100; i += 1) rates = nextRates(rates, at(0, 0), at(1000, 1))
  t.equal(rates.get('d')?.length, 30, 'only the newest are kept')
})

t.test('small pieces', async (t) => {
  t.equal(sparkline([], 4), '    ')
  t.equal(sparkline([0, 0], 2), '▁▁')
  t.equal(sparkline([1, 4, 8], 5), '  ▂▅█')
  t.same(visible(100, 50, 10), { from: 45, to: 55 })
  t.same(visible(5, 4, 10), { from: 0, to: 5 })
  t.same(visible(100, 99, 10), { from: 90, to: 100 })
  t.same(keyPressesOf('jj\r', {}), ['j', 'j', 'return'], 'quick typing comes in one piece')
  t.same(keyPressesOf('', { upArrow: true }), ['up'])
  t.same(keyPressesOf('c', { ctrl: true }), [])
})

t.test('at 80 columns two lines name every key of each page', async (t) => {
  const lines = (
    page: KeysOf,
    { width = 80, most = 2, readOnly = false, canSkip = true, before = '' } = {},
  ) => keyLines({ page, readOnly, canSkip, before }, width, most)
  const whole = (page: KeysOf) => lines(page, { width: 1000, most: 1 })[0]!
  for (const page of ['board', 'detail', 'parked', 'record', 'keys'] as const) {
    const shown = lines(page)
    t.ok(shown.length <= 2 && shown.every((line) => line.length <= 80), page)
    t.equal(shown.join('  '), whole(page), `${page}: none is left out`)
  }
  t.match(
    whole('board'),
    /s skip {2}r retry {2}b block {2}x parked {2}w rewind {2}p pause .* a problems only/,
  )
  t.match(whole('parked'), /r replay {2}d discard {2}R replay all/)
  t.match(lines('board', { most: 1 })[0], /s skip .* p pause/, 'of one line, those that act come first')
  t.match(lines('board', { before: '[x]' })[0], /^\[x\] {2}\? keys/)
  t.notMatch(lines('board', { readOnly: true }).join(), /skip|rewind/)
  t.notMatch(lines('board', { canSkip: false }).join(), /skip/)
})

t.test('the page of keys explains every key, also on a low and narrow terminal', async (t) => {
  const shown = (from: number, width: number, height: number) => {
    const { lastFrame, unmount } = render(
      <KeysHelp readOnly={false} scroll={{ ...scroll, from }} {...{ width, height }} />,
    )
    const frame = lastFrame() ?? ''
    unmount()
    return frame
  }
  t.notMatch(shown(0, 80, 21), /more line/, 'it fits into 80x24')
  const narrow = Array.from({ length: 40 }, (_, from) => shown(from, 60, 11)).join('\n')
  for (const key of '? q esc s r b x w p a / n enter ↑↓ PgDn Home'.split(' '))
    t.ok(
      narrow.split('\n').some((line) => line.startsWith(`  ${key} `)),
      key,
    )
})
