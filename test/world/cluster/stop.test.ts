/** A busy node ends with 0 after SIGTERM, each step within its bound, whatever its destinations and its servers do. */
import t from 'tap'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const cluster = await startCluster({ proxies: true, env: { PIPECTL_LOG_LEVEL: 'debug' } })
t.teardown(() => cluster.close())
const [node] = cluster.nodes as [TestNode]
const sink = await startHttpSink()
sink.respondWith(({ path }) => (path === '/hangs' ? { fault: 'never' } : {}))
t.teardown(() => sink.stop())

const pipes: string[] = []
for (let n = 0; n < 12; n += 1) {
  const pipe = await node.createPipe({ pipe_name: `pipe_${n}` })
  for (const path of ['hangs', 'takes'])
    await node.createDestination(pipe, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: `${sink.url}/${path}` },
    })
  pipes.push(pipe)
}

const sent = new Set<string>()
const acknowledged = new Set<string>()

/** A request at a time for each pipe. */
async function keepBusy(isOver: () => boolean): Promise<void> {
  const send = async (pipe: string) => {
    while (!isOver()) {
      const id = `${pipe}/${sent.size}`
      sent.add(id)
      const answer = await node
        .api('POST', `/v1/ingest/${pipe}`, [{ id }], { isBroken: true })
        .catch(() => null)
      if (answer?.status === 202) acknowledged.add(id)
    }
  }
  await Promise.all(pipes.map(send))
}

const faults = {
  none: () => {},
  'NATS does not respond': () => node.cutNats(),
  'PostgreSQL and NATS do not respond': () => node.cut(),
}

for (const [fault, begin] of Object.entries(faults))
  t.test(
    `SIGTERM under load, every lane in an attempt that hangs; faults of its servers: ${fault}`,
    async (t) => {
      let isOver = false
      const before = sink.deliveries.length
      const busy = keepBusy(() => isOver)
      await until('every pipe has an attempt that hangs', () => {
        const since = sink.deliveries.slice(before)
        return since.filter(({ path }) => path === '/hangs').length >= pipes.length
      })
      const startedAt = node.log.length
      begin()
      t.equal(await node.stop(), 0)
      isOver = true
      await busy
      const lines = node.log.slice(startedAt)
      t.same(
        lines.filter(({ msg }) => msg === 'shutdown.step_failed'),
        [],
      )
      const step = lines.find(({ msg, step }) => msg === 'shutdown.step' && step === 'close delivery')
      t.comment(`close delivery took ${step?.ms} ms`)
      node.mend()
      await node.start()
    },
  )

t.test('nothing that was acknowledged is lost by any of them', async (t) => {
  const missing = () => {
    const arrived = new Set(
      sink.deliveries
        .filter(({ path }) => path === '/takes')
        .flatMap(({ text }) => (JSON.parse(text) as { id: string }[]).map(({ id }) => id)),
    )
    return [...acknowledged].filter((id) => !arrived.has(id))
  }
  await until('all have arrived', () => missing().length === 0)
  t.ok(acknowledged.size > pipes.length * 3, `${acknowledged.size} records`)
})
