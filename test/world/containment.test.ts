/** One destination's broken client library, and everything else of the built daemon; and the way out: `serve --safe`. */
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon, TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

const preload = `--import=${new URL('../support/rogue/fatal-answers.mjs', import.meta.url)}`
const endpoint = (url: string) => ({
  destination_type: 'destination_http_endpoint',
  destination_config: { url },
})

t.test(
  'a destination that hangs its worker again and again: all else answers, other lanes deliver',
  async (t) => {
    const [rogue, good] = await Promise.all([startHttpSink(), startHttpSink()])
    rogue.respondWith(() => ({ headers: { 'x-fatal': 'spin' } }))
    t.teardown(() => Promise.all([rogue.stop(), good.stop()]))
    const daemon = await startDaemon({ env: { NODE_OPTIONS: preload } })
    t.teardown(() => daemon.close())
    const pipeId = await daemon.createPipe({ pipe_name: 'p' })
    const rogueId = await daemon.createDestination(pipeId, endpoint(rogue.url))
    const goodId = await daemon.createDestination(pipeId, endpoint(good.url))
    await daemon.ingest(pipeId, { n: 0 })
    await until('the rogue has answered', () => rogue.deliveries.length > 0)
    await until(
      'its lane is shown as stored',
      async () => (await daemon.lane(pipeId, rogueId)).stale === true,
    )
    t.equal((await daemon.api('GET', '/v1/pipes')).status, 200)
    t.equal((await daemon.api('GET', `/v1/pipes/${pipeId}`)).status, 200)
    await daemon.ingest(pipeId, { n: 1 })
    await until('its attempts run apart', async () => {
      const lane = await daemon.lane(pipeId, rogueId)
      return (lane.last_error as { code: string } | null)?.code === 'driver_crashed'
    })
    await until('the other lane has everything', async () => {
      return (await daemon.lane(pipeId, goodId)).delivered_records === 2
    })
    const events = (name: string) => daemon.log.filter(({ msg }) => msg === name).length
    t.equal(events('delivery.worker_died'), 2)
    t.equal(await daemon.stop(), 0)

    const safe = await new TestDaemon({ dataDir: daemon.dataDir, args: ['--safe'] }).start()
    t.teardown(() => safe.close())
    safe.apiKey = daemon.apiKey
    const ready = await safe.api('GET', '/v1/ready', undefined, { key: null })
    t.match(ready.body, { status: 'ready', warnings: ['safe_mode'] })
    const home = makeHome()
    t.teardown(() => removeHome(home))
    const status = await runCli(['status', '-o', 'table'], { env: cliEnv(safe, home) })
    t.match(status.stdout, /started with `--safe`: nothing is delivered/)
    const before = [rogue.deliveries.length, good.deliveries.length]
    await safe.ingest(pipeId, { n: 2 })
    const answer = await safe.api<{ destination: Record<string, unknown> }>(
      'GET',
      `/v1/pipes/${pipeId}/destinations/${goodId}`,
    )
    t.match(answer.body.destination, {
      destination_status: 'active',
      lane: { lane_state: 'blocked', pending_messages: 1 },
    })
    await safe.api('PATCH', `/v1/pipes/${pipeId}/destinations/${goodId}`, {
      destination_max_retry_seconds: 5,
    })
    t.match(await safe.lane(pipeId, goodId), { lane_state: 'blocked' }, 'also when it is changed')
    t.equal(await safe.stop(), 0)
    t.strictSame([rogue.deliveries.length, good.deliveries.length], before, 'nothing was attempted')

    const normal = await new TestDaemon({ dataDir: daemon.dataDir }).start()
    t.teardown(() => normal.close())
    await until('what came meanwhile is delivered', () => good.records().some(({ n }) => n === 2))
    t.equal(await normal.stop(), 0)
  },
)
