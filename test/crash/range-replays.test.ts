/**
 * Replays of ranges on a daemon that is killed again and again: a table with `exactly_once` and without a dedupe id has
 * exactly one copy more, each batch of an endpoint keeps its `webhook-id`, and nothing of the range is missing. The table
 * without `exactly_once` is the negative control: it shows that kills hit batches between COMMIT and save.
 */
import t from 'tap'
import type { Replay } from '../../src/contract/replays.ts'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const messages = 120
const kills = 12
const mostKills = 60

t.test(`nothing is missing and nothing is doubled through kill -9 (${kills} times)`, async (t) => {
  const [daemon, postgres, sink] = [await startDaemon(), await startPostgres(), await startHttpSink()]
  t.teardown(async () => {
    await daemon.close()
    await Promise.all([postgres.stop(), sink.stop()])
  })
  const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
  const flush = { max_records: 2, max_bytes: 1_000_000, max_seconds: 1 }
  const table = async (name: string, exactly_once: boolean) => {
    await postgres.query(`CREATE TABLE ${name} (n int)`)
    const { host, port, database, user: username, password } = postgres
    return await daemon.createDestination(pipeId, {
      destination_type: 'destination_database',
      destination_name: name,
      destination_config: { host, port, database, username, password, table: name, exactly_once },
      columns: [{ column_name: 'n', column_type: 'number' }],
      flush,
    })
  }
  const [once, plain] = [await table('once', true), await table('plain', false)]
  const endpoint = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'endpoint',
    destination_config: { url: `${sink.url}/x` },
    flush,
  })
  for (let n = 0; n < messages; n += 1) await daemon.ingest(pipeId, { n })
  const count = async (name: string) =>
    Number((await postgres.query(`SELECT count(*) AS c FROM ${name}`))[0]?.c)
  const isDelivered = async () =>
    (await count('once')) === messages &&
    (await count('plain')) === messages &&
    sink.records().length === messages
  await until('all are delivered', isDelivered)
  await until('the lanes have saved it', async () => {
    for (const id of [once, plain, endpoint]) {
      const path = `/v1/pipes/${pipeId}/destinations/${id}`
      const { body } = await daemon.api<{ destination: { lane: { lane_state: string } } }>('GET', path)
      if (body.destination.lane.lane_state !== 'idle') return false
    }
    return true
  })
  const before = sink.deliveries.length
  const path = (id: string) => `/v1/pipes/${pipeId}/destinations/${id}/replays`
  /** Replays of the table without `exactly_once`: more than one, until a kill has doubled something. */
  let plainReplays = 0
  const request = async (id: string) => {
    const { status, body } = await daemon.api<Replay>('POST', path(id), { from: 'earliest', to: 'now' })
    t.equal(status, 202)
    return body.replay_id
  }
  const shown = async (id: string, replayId: string) =>
    (await daemon.api<Replay>('GET', `${path(id)}/${replayId}`)).body
  const replays = new Map([
    [once, await request(once)],
    [endpoint, await request(endpoint)],
  ])
  const isDoubled = async () => (await count('plain')) > messages * (1 + plainReplays)
  let plainReplay: string | null = null
  for (let round = 0; round < kills || (round < mostKills && !(await isDoubled())); round += 1) {
    if (plainReplay === null || (await shown(plain, plainReplay)).state === 'done') {
      plainReplay = await request(plain)
      plainReplays += 1
    }
    const stored = await count('plain')
    const isOver = async () => (await shown(plain, plainReplay!)).state === 'done'
    // Killed just after a COMMIT: whether the lane has saved it is open.
    await until('a batch is stored', async () => (await count('plain')) > stored || (await isOver()), {
      everyMs: 1,
    })
    await daemon.kill()
    await daemon.start()
  }
  for (const [id, replayId] of replays) {
    const done = await until('the replay is done', async () => {
      const replay = await shown(id, replayId)
      return replay.state === 'done' ? replay : null
    })
    t.match(done, { messages, done_messages: messages, replayed_records: messages, expired_messages: 0 })
  }
  const copies = await postgres.query('SELECT n, count(*) AS c FROM once GROUP BY n ORDER BY n')
  t.equal(copies.length, messages)
  t.strictSame(
    copies.filter(({ c }) => Number(c) !== 2),
    [],
    'one copy more of each',
  )
  const ids = new Map<number, Set<string>>()
  for (const { text, headers } of sink.deliveries.slice(before))
    for (const { n } of JSON.parse(text) as { n: number }[])
      ids.set(n, (ids.get(n) ?? new Set()).add(String(headers['webhook-id'])))
  t.equal(ids.size, messages, 'every message arrived again')
  t.strictSame(
    [...ids].filter(([, found]) => found.size > 1),
    [],
    'each under one identity',
  )
  t.ok(await isDoubled(), 'negative control: without exactly_once, a kill has doubled something')
})
