/** `pipectl lanes replay`, `replays` and `cancel-replay` on a real daemon. */
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const daemon = await startDaemon()
const home = makeHome()
const sink = await startHttpSink()
t.teardown(async () => {
  await sink.stop()
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const lanes = (...args: string[]) => runCli(['lanes', ...args], { env })
const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
const destinationId = await daemon.createDestination(pipeId, {
  destination_type: 'destination_http_endpoint',
  destination_name: 'shop',
  destination_config: { url: `${sink.url}/x` },
})
const whole = ['orders/shop', '--from', '1h', '--to', 'now']
for (const n of [1, 2, 3]) await daemon.ingest(pipeId, `{"n":${n}}`)
await until('they are delivered', () => sink.deliveries.flatMap(({ text }) => JSON.parse(text)).length === 3)

t.test('a dry run counts; without an answer nothing is replayed', async (t) => {
  const dry = await lanes('replay', ...whole, '--dry-run', '-o', 'json')
  t.match(JSON.parse(dry.stdout), { messages: 3, records: 3, is_complete: true })
  t.equal((await lanes('replay', ...whole)).code, 2, '--yes is needed')
  t.equal((await lanes('replay', 'orders/shop', '--from', 'x', '--to', 'now', '--yes')).code, 2)
  t.equal((await lanes('replay', 'orders/shop', '--from', '2000-01-01', '--to', '1h', '--yes')).code, 6)
  t.match((await lanes('replays', 'orders/shop')).stdout, /^no replays/)
})

t.test('it waits for the end, and the list shows it', async (t) => {
  const { stdout, stderr, code } = await lanes('replay', ...whole, '--yes', '-o', 'json')
  t.equal(code, 0, stderr)
  const replay = JSON.parse(stdout)
  t.match(replay, { state: 'done', done_messages: 3, replayed_records: 3 })
  t.match(stderr, /Done: 3 records replayed/)
  t.equal(sink.deliveries.flatMap(({ text }) => JSON.parse(text)).length, 6)
  t.match((await lanes('replays', 'orders/shop')).stdout, /^REPLAY .*\n[0-9a-f-]+ +done +3 of 3/)
  t.equal((await lanes('replays', 'orders/shop', '-o', 'name')).stdout.trim(), replay.replay_id)
  t.equal((await lanes('cancel-replay', 'orders/shop', replay.replay_id)).code, 5)
})

t.test('without a wait it is left to the lane; it is cancelled by the start of its id', async (t) => {
  const status = `/v1/pipes/${pipeId}/destinations/${destinationId}/status`
  await daemon.api('PATCH', status, { destination_status: 'blocked' })
  const asked = await lanes('replay', ...whole, '--yes', '--no-wait', '-o', 'name')
  t.equal(asked.code, 0, asked.stderr)
  const id = asked.stdout.trim()
  t.equal((await lanes('cancel-replay', 'orders/shop', 'ffffffff')).code, 3)
  const cancelled = await lanes('cancel-replay', 'orders/shop', id, '-o', 'json')
  t.match(JSON.parse(cancelled.stdout), { replay_id: id, state: 'cancelled' })
  await daemon.api('PATCH', status, { destination_status: 'active' })
})
