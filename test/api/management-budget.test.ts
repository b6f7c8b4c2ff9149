/** The budget of a workspace over HTTP (docs/dev/contract.md#budget-of-a-workspace): the workspace that spends it waits, no other one. */
import t from 'tap'
import { Pool } from 'undici'
import { createStranger, startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const { api_key: otherKey } = await createStranger(daemon.dataDir)
const pipe = await daemon.createPipe({ pipe_name: 'ingested' })

t.test('a workspace that spends its budget gets 429; another workspace and ingest are served', async (t) => {
  const connections = 16
  const pool = new Pool(daemon.url, { connections })
  const served = new Set<number>()
  const rejected: { retryAfter: string; body: unknown }[] = []
  let isSpending = true
  const spend = async () => {
    while (isSpending) {
      // Rejected by its query alone: it costs little, and is charged the minimum.
      const headers = { authorization: `Bearer ${daemon.apiKey}` }
      const answer = await pool.request({ method: 'GET', path: '/v1/audit?limit=x', headers })
      const body = await answer.body.json()
      if (answer.statusCode === 429)
        rejected.push({ retryAfter: String(answer.headers['retry-after']), body })
      else served.add(answer.statusCode)
    }
  }
  const spenders = Array.from({ length: connections }, spend)
  await until('the budget is spent', () => rejected.length > 0)
  const other = await daemon.api('POST', '/v1/pipes', { pipe_name: 'served' }, { key: otherKey })
  t.equal(other.status, 201, 'another workspace has its own')
  t.equal((await daemon.api('POST', `/v1/ingest/${pipe}`, { a: 1 })).status, 202, 'ingest has no part in it')
  t.equal((await daemon.api('GET', '/v1/health', undefined, { key: null })).status, 200)
  isSpending = false
  await Promise.all(spenders)
  await pool.close()
  t.match(rejected[0], { retryAfter: /^[1-9]\d*$/, body: { error: 'too_many_requests' } })
  t.same([...served], [400], 'control: before that its requests were served')
})
