/** Usage counts what was acknowledged, also by a node that was killed before it could tell. */
import t from 'tap'
import { startCluster, type TestNode } from '../../support/cluster.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const cluster = await startCluster({ nodes: 3 })
const [a, b, c] = cluster.nodes as [TestNode, TestNode, TestNode]
const sink = await startHttpSink()
t.teardown(() => Promise.all([cluster.close(), sink.stop()]))

interface Overview {
  pipes: { pipe_id: string; usage_today: { ingest_requests: number; ingest_records: number } }[]
}
const none = { ingest_requests: 0, ingest_records: 0 }
async function usageOf(node: TestNode, pipeId: string) {
  const { body } = await node.api<Overview>('GET', '/v1/overview')
  return body.pipes.find(({ pipe_id }) => pipe_id === pipeId)?.usage_today ?? none
}

t.test('what three nodes take in is counted once', async (t) => {
  const pipeId = await a.createPipe({ pipe_name: 'one', pipe_add_ingest_ts: false })
  for (const node of cluster.nodes) for (const n of [1, 2, 3]) await node.ingest(pipeId, [{ n }, { n }])
  await until('all of it is counted', async () => (await usageOf(b, pipeId)).ingest_records >= 18)
  t.match(await usageOf(c, pipeId), { ingest_requests: 9, ingest_records: 18 })
})

t.test('a killed node takes nothing of it along, whoever owned the pipe', async (t) => {
  const pipeIds: string[] = []
  for (let index = 0; index < 6; index++)
    pipeIds.push(await a.createPipe({ pipe_name: `p${index}`, pipe_add_ingest_ts: false }))
  const accepted = await Promise.all(
    pipeIds.flatMap((pipeId) => [1, 2, 3, 4].map((n) => c.ingest(pipeId, { n }))),
  )
  await c.kill()
  t.equal(accepted.length, 24)
  for (const pipeId of pipeIds)
    await until('it is counted', async () => (await usageOf(a, pipeId)).ingest_records === 4)
  for (const pipeId of pipeIds) await b.ingest(pipeId, { n: 5 })
  for (const pipeId of pipeIds)
    await until('the next too, and nothing twice', async () => {
      const { ingest_records: records } = await usageOf(b, pipeId)
      if (records > 5) throw new Error(`${records} records were counted`)
      return records === 5
    })
})

t.test(
  'what is filtered out is counted once, whichever node filters it and whichever is killed',
  async (t) => {
    const pipes: { pipeId: string; id: string }[] = []
    for (let index = 0; index < 4; index += 1) {
      const pipeId = await a.createPipe({ pipe_name: `f${index}`, pipe_add_ingest_ts: false })
      const { body } = await a.api<{ destination_id: string }>('POST', `/v1/pipes/${pipeId}/destinations`, {
        destination_type: 'destination_http_endpoint',
        destination_config: { url: sink.url, body_format: 'ndjson' },
        transform: { filter: 'record.n > 1' },
      })
      pipes.push({ pipeId, id: body.destination_id })
    }
    const send = (node: TestNode) =>
      Promise.all(pipes.map(({ pipeId }) => node.ingest(pipeId, [{ n: 1 }, { n: 1 }, { n: 2 }])))
    for (let round = 0; round < 10; round += 1) await send(a)
    await b.kill()
    for (let round = 0; round < 10; round += 1) await send(a)
    interface Hours {
      hours: { delivered_records: number; filtered_records: number }[]
    }
    for (const { pipeId, id } of pipes) {
      const at = `/v1/pipes/${pipeId}`
      const counts = async (path: string) => {
        const { body } = await a.api<Hours>('GET', path)
        const sum = (of: (hour: Hours['hours'][number]) => number) =>
          body.hours.reduce((total, hour) => total + of(hour), 0)
        return [sum((hour) => hour.delivered_records), sum((hour) => hour.filtered_records)]
      }
      await until('all of it is through', async () => {
        const [delivered, filtered] = await counts(`${at}/destinations/${id}/usage`)
        if (delivered! > 20 || filtered! > 40) throw new Error(`${delivered} and ${filtered} were counted`)
        return delivered === 20 && filtered === 40
      })
      t.strictSame(await counts(`${at}/usage`), [20, 40])
      const { body } = await a.api<{ destination: { lane: object } }>('GET', `${at}/destinations/${id}`)
      t.match(body.destination.lane, { delivered_records: 20, filtered_records: 40 })
    }
  },
)
