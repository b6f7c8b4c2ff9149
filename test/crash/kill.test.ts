/** A daemon that is killed under load again and again loses nothing. */
import t from 'tap'
import { startHttpSink } from '../support/http-sink.ts'
import { audit, drained, readAll, startProducer } from '../support/ledger.ts'
import { startPostgres } from '../support/postgres.ts'
import { acknowledged, openLedger, restarts } from './ledger-daemon.ts'
import { checkTransformed, isMasked, transformed } from './transformed-lane.ts'

t.test(
  `every 202 is delivered, in order per lane, through kill -9 under load (${restarts} times)`,
  async (t) => {
    const { sink, daemon, pipeId, httpId, pullId } = await openLedger(t)
    const server = await startPostgres()
    t.teardown(() => server.stop())
    await server.query('CREATE TABLE ledger (place bigserial, message text PRIMARY KEY, n int)')
    const tableId = await daemon.createDestination(pipeId, {
      destination_type: 'destination_database',
      destination_config: {
        host: server.host,
        port: server.port,
        database: server.database,
        username: server.user,
        password: server.password,
        table: 'ledger',
      },
      columns: [
        { column_name: 'message', column_type: 'string', semantic_role: 'dedupe_id' },
        { column_name: 'n', column_type: 'number' },
      ],
    })
    // A request each: killed in the middle of a message, a lane goes on there.
    const each = await startHttpSink()
    t.teardown(() => each.stop())
    const eachId = await daemon.createDestination(pipeId, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: each.url, body_format: 'json_object' },
      ...transformed,
    })
    const producer = startProducer(daemon, pipeId)
    for (let round = 0; round < restarts; round++) {
      await acknowledged(producer, 60 + ((round * 37) % 200))
      await daemon.kill()
      await daemon.start()
    }
    await acknowledged(producer, 50)
    await producer.stop()

    const lane = await drained(daemon, pipeId, httpId)
    const all = await readAll(daemon, pullId)
    t.same(
      all.seqs,
      [...all.seqs].sort((a, b) => a - b),
      'stream_seq grows',
    )
    t.equal(new Set(all.messages).size, all.messages.length, 'a msg_id is there once')
    const kept = new Set(all.messages)
    t.same(
      [...producer.messages].filter((id) => !kept.has(id)),
      [],
      'every acknowledged msg_id is in the buffer',
    )

    const arrived = sink.records().map((record) => Number(record.n))
    const found = audit(producer, arrived, all.numbers)
    t.match(found, { missing: [], outOfOrder: [], unknown: [] }, 'the HTTP endpoint got every one, in order')
    t.equal(lane.skipped_messages, 0)
    t.equal(lane.dropped_messages, 0)

    await drained(daemon, pipeId, tableId)
    const rows = (await server.query('SELECT n FROM ledger ORDER BY place')).map((row) => Number(row.n))
    t.match(
      audit(producer, rows, all.numbers),
      { missing: [], outOfOrder: [], unknown: [], repeats: 0 },
      'the table has every one once',
    )
    await checkTransformed(t, 'a request each, transformed', {
      ...{ daemon, pipeId, id: eachId, producer, inOrder: all.numbers, isOnce: false },
      arrived: async () => {
        t.ok(each.records().every(({ stamp }) => isMasked(stamp)))
        return each.records().map(({ n }) => Number(n))
      },
    })
    t.ok(producer.accepted.size > restarts * 50, `${producer.accepted.size} records were acknowledged`)

    t.test('negative control: the audit names what was lost, swapped, invented or repeated', async (t) => {
      const first = [...producer.accepted][0] ?? 0
      t.same(
        audit(
          producer,
          arrived.filter((n) => n !== first),
          all.numbers,
        ).missing,
        [first],
      )
      const swapped = [...rows]
      swapped.push(...swapped.splice(0, 1))
      t.same(audit(producer, swapped, all.numbers).outOfOrder, [rows[0]])
      t.same(audit(producer, [...rows, producer.sent + 1], all.numbers).unknown, [producer.sent + 1])
      t.equal(audit(producer, [...rows, rows[0] ?? 0], all.numbers).repeats, 1)
    })
  },
)
