import { render } from 'ink-testing-library'
import t from 'tap'
import { openClient } from '../../../src/apps/client/client.ts'
import { App } from '../../../src/apps/tui/app.tsx'
import { startDaemon } from '../../support/daemon.ts'
import { startParkingLane } from '../../support/parking.ts'
import { until } from '../../support/until.ts'

/** The parked records of a lane on the screen of a real daemon. */
const daemon = await startDaemon()
const lane = await startParkingLane(daemon, 'orders')
await lane.send('{"n":1,"bad":true,"big":12345678901234567890}', '{"n":2,"bad":true}', '{"n":3,"bad":true}')
const client = openClient({ url: daemon.url, apiKey: daemon.apiKey })
t.teardown(async () => {
  await lane.sink.stop()
  await daemon.close()
})

function open(t: Pick<typeof import('tap').t, 'teardown'>, readOnly = false, width = 80) {
  const screen = render(<App client={client} readOnly={readOnly} width={width} height={24} everyMs={50} />)
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
const left = async () => (await lane.parked()).length

t.test('--read-only: they can be looked at, and stay as they are', async (t) => {
  const { press, shows } = open(t, true)
  await shows(/shop 3 parked/)
  press('x')
  await shows(/Choose a lane first/)
  press('G')
  await shows(/▶ +shop 3 parked/)
  press('x')
  await shows(/Parked records of orders\/shop: 3 records/)
  for (const key of ['r', 'd', 'R']) {
    press(key)
    await shows(/This screen is read-only/)
    press('j')
    await shows(/esc back/)
  }
  t.equal(await left(), 3)
})

t.test('found, looked into, replayed, discarded after a question, replayed all', async (t) => {
  const { press, shows, frame } = open(t)
  await shows(/shop 3 parked/)
  press('G')
  press('x')
  await shows(/▶ [0-9a-f-]{8,} .* \d+ #0 +rejected +http_422/)
  press('\r')
  await shows(/parked record +[0-9a-f-]{36}/)
  await shows(/to edit +pipectl parked edit orders\/shop [0-9a-f-]{18}/)
  await shows(/"big":12345678901234567890/)
  press('\x1b')
  await shows(/3 records/)
  press('r')
  await shows(/Replayed \d+ #\d: failed again: http_422/)
  press('j')
  await shows(/▶ .* #1 /)
  press('d')
  await shows(/Discard \d+ #1 permanently\? \[y\/N\]/)
  press('\r')
  await shows(/Not changed\./)
  t.equal(await left(), 3, 'the default is No')
  press('dy')
  await shows(/Discarded \d+ #1\./)
  await shows(/2 records/)
  t.same(
    (await lane.parked()).map((one) => one.record_index),
    [0, 2],
  )
  t.ok(frame().split('\n').length <= 23, 'one line is left to the terminal')
  lane.sink.respondWith(() => ({ status: 200 }))
  press('r')
  await shows(/Replayed \d+ #\d: stored\./)
  press('R')
  await shows(/Replay all parked records of orders\/shop\? \[y\/N\]/)
  press('y')
  await shows(/Replaying 1 parked record of orders\/shop\./)
  await shows(/Parked records of orders\/shop: none\./)
  press('\x1b')
  await shows(/PIPE \/ LANE/)
  await until('the board no longer counts any', () => !/\d parked/.test(frame()))
  press('?')
  await shows(/x +show the parked records of a lane/)
})
