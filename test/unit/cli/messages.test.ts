/** `pipectl why` and `pipectl messages` against a real daemon. */
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const daemon = await startDaemon()
const sink = await startHttpSink()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
  removeHome(home)
})
sink.respondWith((delivery) => ({ status: delivery.text.includes('"bad"') ? 422 : 200 }))
const env = cliEnv(daemon, home)
const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
await daemon.createDestination(pipeId, {
  ...{ destination_type: 'destination_http_endpoint', destination_name: 'shop' },
  destination_config: { url: `${sink.url}/orders` },
})
const { msg_id: good } = await daemon.ingest(pipeId, { n: 1 })
const { msg_id: bad } = await daemon.ingest(pipeId, { bad: 1 })

async function untilState(msgId: string, state: string): Promise<void> {
  await until(`${msgId} is ${state}`, async () => {
    const { body } = await daemon.api<{ lanes: { state: string }[] }>('GET', `/v1/messages/${msgId}`)
    return body.lanes[0]?.state === state
  })
}

t.test('why shows a table with each lane, and the body as it came in a pipe', async (t) => {
  await untilState(good, 'delivered')
  await untilState(bad, 'stuck')
  const delivered = await runCli(['why', good, '-o', 'table'], { env })
  t.equal(delivered.code, 0, delivered.stderr)
  t.match(delivered.stdout, /orders\/shop\s+delivered/)
  const stuck = await runCli(['why', bad, '-o', 'table'], { env })
  t.match(stuck.stdout, /orders\/shop\s+stuck/)
  t.match(stuck.stderr, 'pipectl lanes retry orders/shop', 'what to do next')
  const json = await runCli(['why', bad, '-o', 'json'], { env })
  t.match(JSON.parse(json.stdout), { msg_id: bad, lanes: [{ state: 'stuck' }] })
})

t.test('why of what there is not: exit code 3, and what to do next', async (t) => {
  const { code, stderr } = await runCli(['why', '0190b0a0-0000-7000-8000-000000000001'], { env })
  t.equal(code, 3)
  t.match(stderr, 'pipectl messages')
})

t.test('messages lists them newest first, page by page, between two times', async (t) => {
  const names = await runCli(['messages', 'orders', '-o', 'name'], { env })
  t.strictSame(names.stdout.trim().split('\n'), [bad, good])
  const first = await runCli(['messages', 'orders', '--limit', '1', '-o', 'table'], { env })
  t.match(first.stdout, bad)
  const after = /--after (\d+)/.exec(first.stderr)?.[1] ?? ''
  const second = await runCli(['messages', 'orders', '--after', after, '-o', 'ndjson'], { env })
  t.equal(JSON.parse(second.stdout).msg_id, good)
  const recent = await runCli(['messages', 'orders', '--since', '1h', '-o', 'name'], { env })
  t.equal(recent.stdout, names.stdout)
  const old = await runCli(['messages', 'orders', '--until', '1h', '-o', 'name'], { env })
  t.equal(old.stdout.trim(), '')
  for (const since of ['yesterday', 'today', '-24h'])
    t.equal(
      (await runCli(['messages', 'orders', '--since', since, '-o', 'name'], { env })).stdout,
      names.stdout,
    )
  const wrong = await runCli(['messages', 'orders', '--since', 'last week'], { env })
  t.equal(wrong.code, 2)
  t.match(wrong.stderr, '--since')
})

t.test(
  'messages are filtered by lane, state, value and id; a page that is full names the next one',
  async (t) => {
    const list = async (...options: string[]) =>
      (await runCli(['messages', ...options, '-o', 'name'], { env })).stdout.trim()
    t.equal(await list('orders', '--state', 'delivered'), good)
    t.equal(await list('orders/shop', '--state', 'stuck'), bad)
    t.equal(await list('orders', '--where', 'bad=1'), bad)
    t.equal(await list('orders', '--where', 'bad=1', '--state', 'delivered'), '')
    t.equal(await list('orders', '--msg-id', good), good)
    const table = await runCli(['messages', 'orders', '--where', 'n=1', '-o', 'table'], { env })
    t.match(table.stdout, /RECORD\n.*\{"n":1/)
    const page = await runCli(['messages', 'orders/shop', '--since', '1h', '--limit', '1'], { env })
    const next = /There are more: pipectl (messages orders\/shop --since 1h --limit 1 --after \d+)/.exec(
      page.stderr,
    )
    t.ok(next, page.stderr)
    t.equal(await list(...(next?.[1] ?? '').split(' ').slice(1)), good)
  },
)

t.test('a search that ends early says how far it looked, and how to continue', async (t) => {
  const many = await daemon.createPipe({ pipe_name: 'many', pipe_add_ingest_ts: false })
  const { msg_id: needle } = await daemon.ingest(many, { kind: 'needle' })
  const chaff = JSON.stringify(Array.from({ length: 1_000 }, (_, n) => ({ n, text: 'x'.repeat(970) })))
  for (let n = 0; n < 75; n += 1) await daemon.ingest(many, chaff)
  let args = ['messages', 'many', '--where', 'kind=needle']
  for (let page = 0; ; page += 1) {
    const { stdout, stderr } = await runCli([...args, '-o', 'name'], { env })
    const more = /Looked at [\d,]+ messages, back to \S+ Older ones were not searched yet: pipectl (.*)/.exec(
      stderr,
    )
    if (page === 0) t.ok(more, stderr)
    if (more === null) {
      t.equal(stdout.trim(), needle)
      return
    }
    args = more[1]!.split(' ')
  }
})

t.test('a wrong filter is a usage error', async (t) => {
  const where = await runCli(['messages', 'orders', '--where', 'status'], { env })
  t.match(where, { code: 2, stderr: /--where must be KEY=VALUE/ })
  const state = await runCli(['messages', 'orders', '--state', 'lost'], { env })
  t.match(state, { code: 2, stderr: /delivered, pending, stuck/ })
})
