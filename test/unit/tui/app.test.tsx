import { render } from 'ink-testing-library'
import t from 'tap'
import { openClient } from '../../../src/apps/client/client.ts'
import { App } from '../../../src/apps/tui/app.tsx'
import { startDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

/** The whole screen on a real daemon with a lane that is stuck. */
const daemon = await startDaemon()
const sink = await startHttpSink()
sink.respondWith(() => ({ status: 422 }))
const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
const destinationId = await daemon.createDestination(pipeId, {
  destination_type: 'destination_http_endpoint',
  destination_config: { url: `${sink.url}/x` },
})
await daemon.ingest(pipeId, '{"n":1.10}')
await daemon.ingest(pipeId, '{"n":2}')
const client = openClient({ url: daemon.url, apiKey: daemon.apiKey })
t.teardown(async () => {
  await sink.stop()
  await daemon.close()
})

function open(t: Pick<typeof import('tap').t, 'teardown'>, readOnly = false, width = 100, height = 24) {
  const screen = render(<App client={client} everyMs={50} {...{ readOnly, width, height }} />)
  // After a failure too: a screen that is left open would keep the process alive.
  t.teardown(() => screen.unmount())
  const frame = () => screen.lastFrame() ?? ''
  return {
    frame,
    press: (keys: string) => screen.stdin.write(keys),
    shows: (what: RegExp) =>
      until(`the screen shows ${what}`, () => what.test(frame())).catch((error: Error) => {
        throw new Error(`${error.message}\n${frame()}`)
      }),
  }
}
const skipped = async () => (await daemon.lane(pipeId, destinationId)).skipped_messages

t.test('a stuck lane: found, looked into, not skipped by default, then skipped', async (t) => {
  await until('the lane is stuck', async () => (await daemon.lane(pipeId, destinationId)).last_error !== null)
  const { press, shows, frame } = open(t)
  await shows(/http-endpoint +■ stuck/)
  await shows(/■ 1 stuck/)
  await shows(/▶ +http-endpoint/)
  press('\r')
  await shows(/permanent http_422/)
  await shows(/\{"n":1\.10\}/)
  press('s')
  await shows(/Skip\? \[y\/N\]/)
  press('\r')
  await shows(/Not skipped\./)
  t.equal(await skipped(), 0, 'the default is No')
  press('r')
  await shows(/Retried: orders\/http-endpoint failed again: http_422/)
  press('s')
  await shows(/Skip\? \[y\/N\]/)
  press('y')
  await shows(/Parked the blocking message/)
  t.equal(await skipped(), 1)
  press('\x1b')
  await shows(/PIPE \/ LANE/)
  t.ok(frame().split('\n').length <= 23, 'one line is left to the terminal')
})

t.test('the header says whether alerts are set up', async (t) => {
  await open(t).shows(/no alerts/)
  await daemon.api('PUT', '/v1/alerts', { url: 'http://127.0.0.1:1/' })
  await open(t, true, 160).shows(/alerts (on|not sent)/)
  await daemon.api('DELETE', '/v1/alerts')
})

t.test('block, pause, rewind, filter and the page of keys', async (t) => {
  const { press, shows } = open(t)
  await shows(/orders/)
  press('g')
  await shows(/▶ +orders/)
  press('p')
  await shows(/Pause pipe orders\? \[y\/N\]/)
  press('\r')
  await shows(/Not changed/)
  press('py')
  await shows(/orders +○ paused/)
  press('py')
  await shows(/Pipe orders is active/)
  press('G')
  await shows(/▶ +http-endpoint/)
  press('b')
  await shows(/Block orders\/http-endpoint\? \[y\/N\] {2}Deliveries stop; the backlog is kept/)
  press('\r')
  await shows(/Not changed/)
  press('by')
  await shows(/http-endpoint( 1 parked)? +○ blocked/)
  press('b')
  await shows(/http-endpoint is active/)
  press('wearliest\r')
  await shows(/continues after stream_seq \d+/)
  press('?')
  await shows(/choose a line/)
  press('x')
  press('/nothing-like-it')
  await shows(/Nothing matches the filter/)
  press('\x1b')
  await shows(/▶/)
  t.equal((await daemon.lane(pipeId, destinationId)).cursor_seq, 0)
})

t.test('skip is not offered where no record is at fault', async (t) => {
  const lockedId = await daemon.createPipe({ pipe_name: 'locked' })
  sink.respondWith(() => ({ status: 401 }))
  const shopId = await daemon.createDestination(lockedId, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'shop',
    destination_config: { url: `${sink.url}/locked` },
  })
  await daemon.ingest(lockedId, '{"n":1}')
  await until('it is refused', async () => (await daemon.lane(lockedId, shopId)).last_error !== null)
  const { press, shows, frame } = open(t)
  press('/locked\r')
  await shows(/\[locked\]/)
  press('G')
  await shows(/▶ +shop/)
  t.notMatch(frame(), /s skip/)
  press('s')
  await shows(/Skipping does not help: no record is at fault\. Fix the destination, then r/)
  press('y')
  t.equal((await daemon.lane(lockedId, shopId)).skipped_messages, 0)
  sink.respondWith(() => ({ status: 422 }))
  await daemon.api('DELETE', `/v1/pipes/${lockedId}`)
})

t.test(
  'a page of a low terminal scrolls, and begins at its first line when it is opened again',
  async (t) => {
    const { press, shows } = open(t, false, 60, 13)
    await shows(/http-endpoint/)
    press('G')
    await shows(/▶ +http-endpoint/)
    press('\r')
    await shows(/^lane .*(\n.*)*▼ \d+ more lines: PgDn/m)
    press('\x1b[6~')
    await shows(/^pipectl.*\n(?!lane )/)
    press('\x1b')
    await shows(/PIPE \/ LANE/)
    press('\r')
    await shows(/^pipectl.*\nlane /)
  },
)

t.test('--read-only changes nothing, whatever is pressed', async (t) => {
  const { press, shows } = open(t, true)
  await shows(/\[read-only\]/)
  await shows(/http-endpoint/)
  press('G')
  await shows(/▶ +http-endpoint/)
  for (const key of ['s', 'r', 'b', 'w', 'p']) {
    press('?')
    await shows(/choose a line/)
    press('x')
    press(key)
    await shows(/This screen is read-only/)
  }
  const got = await daemon.api('GET', `/v1/pipes/${pipeId}`)
  t.match(got.body, { pipe: { pipe_status: 'active' }, destinations: [{ destination_status: 'active' }] })
})

t.test(
  'n goes to the next lane that needs attention; a wide terminal shows errors, and the detail beside the board',
  async (t) => {
    await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${destinationId}/rewind`, { to: 'earliest' })
    const { press, shows } = open(t, false, 180)
    await shows(/LAST ERROR\n(.*\n)*.*http-endpoint .* http_422: /)
    press('g')
    await shows(/▶ +orders/)
    press('n')
    await shows(/▶ +http-endpoint/)
    press('\r')
    await shows(/▶ +http-endpoint.*target|PIPE \/ LANE.*lane +orders\/http-endpoint/)
    await shows(/first failed +\d+s ago \(20/)
    press('\x1b')
    await shows(/LAST ERROR/)
    press('a')
    await shows(/\[problems only\]/)
    await shows(/http-endpoint +(1 parked +)?■ stuck/)
    press('a')
  },
)

t.test('a daemon that goes away is shown as stale, with what was known', async (t) => {
  const { shows } = open(t)
  await shows(/http-endpoint/)
  await daemon.stop()
  await shows(/STALE/)
  await shows(/http-endpoint/)
})
