/**
 * The lanes' counters, through kill -9 under load: each ingested record is delivered, parked or filtered out, and
 * counted exactly once as that, whatever the destination and the moment of a kill.
 */
import t from 'tap'
import { startHttpSink } from '../support/http-sink.ts'
import { drained, readAll, startProducer } from '../support/ledger.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { acknowledged, openLedger, restarts } from './ledger-daemon.ts'

/** The tables and the endpoint reject these. */
const isBad = (n: number) => n % 7 === 3
const filter = 'int(record.n) % 5 != 0'
const isFiltered = (n: number) => n % 5 === 0

/** Beyond the producer's numbers, which begin at 0 in each round; 3 more is a bad one. */
const base = (round: number) => 35 * (1_000_000 + round)

interface Counts {
  delivered: number
  parked: number
  filtered: number
}

function countsOf(lane: Record<string, unknown>): Counts {
  const { delivered_records, parked_records, filtered_records } = lane
  return {
    delivered: Number(delivered_records),
    parked: Number(parked_records),
    filtered: Number(filtered_records),
  }
}

function wantedCounts(numbers: readonly number[], hasFilter: boolean): Counts {
  const filtered = hasFilter ? numbers.filter(isFiltered) : []
  const others = hasFilter ? numbers.filter((n) => !isFiltered(n)) : numbers
  const parked = others.filter(isBad)
  return {
    delivered: others.length - parked.length,
    parked: parked.length,
    filtered: filtered.length,
  }
}

t.test(
  `every record is counted once, as what became of it, through kill -9 (${restarts} times)`,
  async (t) => {
    const { daemon, pipeId, pullId } = await openLedger(t)
    const [postgres, mariadb, sink] = [await startPostgres(), await startMariadb(), await startHttpSink()]
    t.teardown(() => Promise.all([postgres.stop(), mariadb.stop(), sink.stop()]))
    sink.respondWith(({ text }) => ({ status: isBad(JSON.parse(text).n) ? 422 : 200 }))
    const lanes: { name: string; id: string; hasFilter: boolean }[] = []
    const add = async (name: string, body: Record<string, unknown>, hasFilter = false) => {
      const transform = hasFilter ? { transform: { filter } } : {}
      const id = await daemon.createDestination(pipeId, { ...body, ...transform, on_permanent_error: 'park' })
      lanes.push({ name, id, hasFilter })
    }
    const stored: (() => Promise<number>)[] = []
    for (const [server, dialect] of [
      [postgres, 'postgresql'],
      [mariadb, 'mariadb'],
    ] as const)
      for (const table of ['once', 'once_filtered', 'upsert']) {
        const isUpsert = table === 'upsert'
        const check = 'CHECK (n % 7 <> 3)'
        await server.query(
          `CREATE TABLE ${table} (id varchar(64)${isUpsert ? ' PRIMARY KEY' : ''}, n int ${check})`,
        )
        const { host, port, database, user: username, password } = server
        const config = { host, port, database, username, password, dialect, table, exactly_once: !isUpsert }
        const body = {
          destination_type: 'destination_database',
          destination_config: config,
          columns: [
            ...(isUpsert ? [{ column_name: 'id', column_type: 'string', semantic_role: 'dedupe_id' }] : []),
            { column_name: 'n', column_type: 'number' },
          ],
        }
        await add(`${dialect}, ${table}`, body, table === 'once_filtered')
        stored.push(async () =>
          Number((await server.query(`SELECT count(*) AS found FROM ${table}`))[0]?.found),
        )
      }
    const endpoint = { url: sink.url, body_format: 'json_object' }
    const http = { destination_type: 'destination_http_endpoint', destination_config: endpoint }
    await add('HTTP endpoint', http)
    await add('HTTP endpoint, filtered', http, true)

    for (let round = 0; round < restarts; round++) {
      const producer = startProducer(daemon, pipeId, { loops: 4 })
      const rows = stored[round % stored.length]!
      await acknowledged(producer, 40 + ((round * 37) % 120))
      await producer.stop()
      for (const { id } of lanes) await drained(daemon, pipeId, id)
      // Lanes at rest take one message whole, and it has a bad record. Killed just after a COMMIT: whether the lane has saved
      // it is open.
      const before = await rows()
      await daemon.ingest(
        pipeId,
        [1, 2, 3, 4, 6, 8].map((n) => ({ n: base(round) + n })),
      )
      // Killed just after a COMMIT: whether the lane has saved it is open.
      await until('a batch of this round is stored', async () => (await rows()) > before, { everyMs: 1 })
      await daemon.kill()
      await daemon.start()
      await producer.stop()

      const { numbers } = await readAll(daemon, pullId)
      for (const { name, id, hasFilter } of lanes)
        t.strictSame(
          countsOf(await drained(daemon, pipeId, id)),
          wantedCounts(numbers, hasFilter),
          `${name}, after kill ${round + 1}`,
        )
      for (const [at, count] of stored.entries())
        t.equal(
          await count(),
          wantedCounts(numbers, lanes[at]!.hasFilter).delivered,
          `${lanes[at]!.name}: rows`,
        )
    }

    t.test('negative control: one record more or less is seen', async (t) => {
      const { numbers } = await readAll(daemon, pullId)
      const lane = await daemon.lane(pipeId, lanes[0]!.id)
      const more = { ...lane, delivered_records: Number(lane.delivered_records) + 1 }
      t.notSame(countsOf(more), wantedCounts(numbers, false))
      t.notSame(countsOf(lane), wantedCounts(numbers.slice(1), false))
      t.notSame(countsOf(lane), wantedCounts(numbers, true))
    })
  },
)
