/** A lane whose retries fail for a minute needs attention on every surface; its word and its `lane_state` stay `retrying`. */
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { openDashboard } from '../support/dashboard.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { httpDestination } from './sender.ts'

t.test(
  'a minute of failed retries is reported by the log, status, lists, metrics and the dashboard',
  async (t) => {
    const clock = fakeClock(t)
    const dashboard = await openDashboard({ env: clock.env })
    t.teardown(() => dashboard.close())
    const { daemon } = dashboard
    const sink = await startHttpSink()
    t.teardown(() => sink.stop())
    const home = makeHome()
    t.teardown(() => removeHome(home))
    await sink.halt()
    const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
    const named = { ...httpDestination(sink.url), destination_name: 'warehouse' }
    const id = await daemon.createDestination(pipeId, named)
    await daemon.ingest(pipeId, { n: 1 })
    await until('a retry has failed', async () => Number((await daemon.lane(pipeId, id)).attempts) >= 2)

    // The command's own clock is the daemon's, as on one machine.
    const pipectl = (...args: string[]) => runCli(args, { env: { ...clock.env, ...cliEnv(daemon, home) } })
    const metric = async () => {
      const text = await (await fetch(daemon.metricsUrl)).text()
      return Number(/^pipectl_lane_failing\{.*destination="warehouse".*\} (\d)$/m.exec(text)?.[1])
    }
    const { page, problems } = await dashboard.visit('viewer')
    t.equal((await pipectl('status', '--check')).code, 0, 'control: before the minute is over')
    t.match((await pipectl('lanes', 'list', '-o', 'json')).stdout, '"is_failing":false')
    t.equal(await metric(), 0)
    await page.getByText('retrying').first().waitFor()

    clock.set(61)
    const said = await until('the log names it', () => daemon.log.find(({ msg }) => msg === 'lane.failing'), {
      timeoutMs: 30_000,
    })
    t.match(said, { level: 'warn', pipe: 'orders', destination: 'warehouse', class: 'transient' })
    t.match(said, { code: /\w/, message: /\w/, since: /^\d{4}-.*Z$/ })
    const status = await pipectl('status', '--check', '-o', 'table')
    t.equal(status.code, 1)
    t.match(status.stdout, /needs attention +orders\/warehouse, retrying: /)
    t.match((await pipectl('lanes', 'list', '-o', 'table')).stdout, /orders\/warehouse +retrying/)
    const listed = JSON.parse((await pipectl('lanes', 'list', '--blocked', '-o', 'json')).stdout)
    t.match(listed, { lanes: [{ destination_id: id, lane_state: 'retrying', is_failing: true }] })
    t.equal(await metric(), 1)
    await page.getByTitle('1 lane needs attention').waitFor()
    await page.getByRole('link', { name: 'warehouse' }).first().click()
    await page
      .getByText(/retrying$/)
      .first()
      .waitFor()
    t.strictSame(problems, [])

    await sink.listen()
    await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${id}/retry-now`)
    await until('it is delivered', async () => (await daemon.lane(pipeId, id)).lane_state === 'idle')
    t.equal((await pipectl('status', '--check')).code, 0)
    t.equal(await metric(), 0)
    t.equal(daemon.log.filter(({ msg }) => msg === 'lane.failing').length, 1, 'said once')
  },
)
