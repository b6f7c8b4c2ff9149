/**
 * One bad record among 10,000: the lane delivers everything before it once, blocks at exactly its message with the
 * server's own code, shows it, and goes on after a skip with nothing delivered twice.
 *
 * All cases share one backlog: each bad value lies in a field of its own, which only the table of its case has a
 * column for, so every lane meets one bad record, and what is bad for others must not trouble it.
 */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { drained } from '../support/ledger.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { tableDestination } from './sender.ts'

const messageCount = 2000
const perMessage = 5
const total = messageCount * perMessage
const places = { first: 0, middle: messageCount / 2, last: messageCount - 1 }
type Place = keyof typeof places

interface Kind {
  name: string
  bad: unknown
  /** The value in every other record; absent: the key is absent. */
  good?: unknown
  type: string
  places: Place[]
  /** SQL type and constraints of the column; the code that the server answers with. No code: it takes the value. */
  postgresql: { column: string; code?: string }
  mariadb: { column: string; code?: string }
}

const everywhere: Place[] = ['first', 'middle', 'last']
const kinds: Kind[] = [
  {
    name: 'nul',
    bad: 'a\u0000b',
    type: 'string',
    places: everywhere,
    postgresql: { column: 'text', code: '22P05' },
    mariadb: { column: 'text' },
  },
  {
    name: 'too_long',
    bad: 'x'.repeat(30),
    type: 'string',
    places: everywhere,
    postgresql: { column: 'varchar(20)', code: '22001' },
    mariadb: { column: 'varchar(20)', code: 'ER_DATA_TOO_LONG' },
  },
  {
    name: 'out_of_range',
    bad: 3_000_000_000,
    type: 'number',
    places: everywhere,
    postgresql: { column: 'int', code: '22003' },
    mariadb: { column: 'int', code: 'ER_WARN_DATA_OUT_OF_RANGE' },
  },
  {
    name: 'not_null',
    bad: null,
    good: 1,
    type: 'number',
    places: ['middle'],
    postgresql: { column: 'int NOT NULL', code: '23502' },
    mariadb: { column: 'int NOT NULL', code: 'ER_BAD_NULL_ERROR' },
  },
  {
    name: 'wrong_type',
    bad: 'not a number',
    type: 'number',
    places: ['last'],
    postgresql: { column: 'int', code: '22P02' },
    mariadb: { column: 'int', code: 'ER_TRUNCATED_WRONG_VALUE_FOR_FIELD' },
  },
  {
    name: 'unique',
    bad: 'taken',
    type: 'string',
    places: ['first'],
    postgresql: { column: 'varchar(20) UNIQUE', code: '23505' },
    mariadb: { column: 'varchar(20) UNIQUE', code: 'ER_DUP_ENTRY' },
  },
]

interface Case {
  kind: Kind
  place: Place
  field: string
}

const cases: Case[] = kinds.flatMap((kind) =>
  kind.places.map((place) => ({ kind, place, field: `${kind.name}_${place}` })),
)

/** The records of one message; the third one of a bad message is the bad one. */
function recordsOf(message: number): Record<string, unknown>[] {
  return Array.from({ length: perMessage }, (_, index) => {
    const record: Record<string, unknown> = { n: message * perMessage + index }
    for (const { kind, place, field } of cases) {
      if (places[place] === message && index === 2) record[field] = kind.bad
      else if (kind.good !== undefined) record[field] = kind.good
    }
    return record
  })
}

const daemon = await startDaemon({ env: { PIPECTL_INGEST_MAX_BODY_BYTES: '20MiB' } })
t.teardown(() => daemon.close())
const postgres = await startPostgres()
t.teardown(() => postgres.stop())
const mariadb = await startMariadb()
t.teardown(() => mariadb.stop())
const query = (dialect: string, sql: string) =>
  dialect === 'mariadb' ? mariadb.query(sql) : postgres.query(sql)

const nColumn = { column_name: 'n', column_type: 'number' }

async function attach(pipeId: string, dialect: 'postgresql' | 'mariadb', table: string, one: Case) {
  await query(dialect, `CREATE TABLE ${table} (n int, v ${one.kind[dialect].column})`)
  if (one.kind.name === 'unique') await query(dialect, `INSERT INTO ${table} VALUES (-1, 'taken')`)
  const server = dialect === 'mariadb' ? mariadb : postgres
  const columns = [nColumn, { column_name: 'v', column_type: one.kind.type, source_field: one.field }]
  const destination = tableDestination(server, dialect, table, columns)
  return await daemon.createDestination(pipeId, { ...destination, start_from: 'earliest' })
}

/** How many rows there are of ours, how many different ones, and the last. */
async function rowsOf(dialect: string, table: string) {
  const [row] = await query(
    dialect,
    `SELECT count(*) AS found, count(DISTINCT n) AS distinct_rows, min(n) AS least, max(n) AS most FROM ${table} WHERE n >= 0`,
  )
  return {
    found: Number(row?.found),
    distinct: Number(row?.distinct_rows),
    least: row?.least == null ? null : Number(row.least),
    most: row?.most == null ? null : Number(row.most),
  }
}

async function untilBlocked(pipeId: string, id: string) {
  return await until(
    'the lane is blocked by a permanent error at one message',
    async () => {
      const lane = await daemon.lane(pipeId, id)
      const error = lane.last_error as { class: string } | null
      return lane.blocking_msg_id !== null && error?.class === 'permanent' && lane.next_attempt_ts !== null
        ? lane
        : null
    },
    { timeoutMs: 120_000, everyMs: 100 },
  )
}

t.test(`one bad record among ${total}`, async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'poison', pipe_add_ingest_ts: false })
  const ids = new Map<number, string>()
  const send = async (message: number) => {
    ids.set(message, (await daemon.ingest(pipeId, recordsOf(message))).msg_id)
  }
  // The messages before a bad one must be acknowledged: only the others are sent concurrently.
  const bad = new Set<number>(Object.values(places))
  let next = 0
  while (next < messageCount) {
    if (bad.has(next)) await send(next++)
    else {
      const together: Promise<void>[] = []
      while (next < messageCount && !bad.has(next) && together.length < 16) together.push(send(next++))
      await Promise.all(together)
    }
  }
  t.equal(ids.size, messageCount)

  for (const dialect of ['postgresql', 'mariadb'] as const) {
    for (const one of cases) {
      const { code } = one.kind[dialect]
      const name = `${dialect}: ${one.kind.name} at the ${one.place} place`
      await t.test(name, async (t) => {
        const id = await attach(pipeId, dialect, one.field, one)
        if (code === undefined) {
          await drained(daemon, pipeId, id)
          const rows = await rowsOf(dialect, one.field)
          t.match(
            rows,
            { found: total, distinct: total },
            'control: it stores this value, and everything else',
          )
          await daemon.api('DELETE', `/v1/pipes/${pipeId}/destinations/${id}`)
          return
        }
        const message = places[one.place]
        const before = message * perMessage
        const lane = await untilBlocked(pipeId, id)
        t.equal(lane.blocking_msg_id, ids.get(message), 'it stands at exactly that message')
        t.match(lane, { last_error: { class: 'permanent', code } }, 'with the server’s own code')
        t.equal(Number(lane.delivered_records), before)
        t.same(
          await rowsOf(dialect, one.field),
          {
            found: before,
            distinct: before,
            least: before === 0 ? null : 0,
            most: before === 0 ? null : before - 1,
          },
          'everything before it is in the table once, nothing after it',
        )
        const blocking = await daemon.api<{ records: unknown[] }>(
          'GET',
          `/v1/pipes/${pipeId}/destinations/${id}/blocking-message`,
        )
        t.match(blocking, { status: 200, body: { msg_id: ids.get(message), records_count: perMessage } })
        t.same(blocking.body.records, recordsOf(message), 'it can be looked at')
        const skip = await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${id}/skip`)
        t.match(skip, { status: 200, body: { skipped: true, status: 'skipped' } })
        const after = await drained(daemon, pipeId, id)
        t.match(after, { lane_state: 'idle', skipped_messages: 1, dropped_messages: 0 })
        const rest = total - perMessage
        t.equal(Number(after.delivered_records), rest)
        t.match(
          await rowsOf(dialect, one.field),
          { found: rest, distinct: rest },
          'the rest once, nothing twice',
        )
        const skipped = `SELECT n FROM ${one.field} WHERE n >= ${before} AND n < ${before + perMessage}`
        t.same(await query(dialect, skipped), [], 'only the skipped message is not there')
        await daemon.api('DELETE', `/v1/pipes/${pipeId}/destinations/${id}`)
      })
    }
  }
})

t.test('negative control: a row that is missing or there twice is noticed', async (t) => {
  for (const dialect of ['postgresql', 'mariadb'] as const) {
    await query(dialect, 'DELETE FROM too_long_middle WHERE n = 7')
    t.match(await rowsOf(dialect, 'too_long_middle'), { found: total - perMessage - 1 })
    await query(dialect, 'INSERT INTO too_long_middle (n) VALUES (8)')
    const { found, distinct } = await rowsOf(dialect, 'too_long_middle')
    t.equal(found - distinct, 1)
  }
})

t.test('17 MB is more than MariaDB takes in one packet; PostgreSQL takes it', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'large', pipe_add_ingest_ts: false })
  const large: Case = {
    kind: {
      name: 'large',
      bad: null,
      type: 'string',
      places: ['middle'],
      postgresql: { column: 'text' },
      mariadb: { column: 'longtext' },
    },
    place: 'middle',
    field: 'large',
  }
  const ids: string[] = []
  const messages = 200
  const each = 50
  for (let message = 0; message < messages; message += 1) {
    const records = Array.from({ length: each }, (_, index) => ({ n: message * each + index }))
    if (message === messages / 2) Object.assign(records[0] ?? {}, { large: 'x'.repeat(17_000_000) })
    ids.push((await daemon.ingest(pipeId, records)).msg_id)
  }
  const mariadbId = await attach(pipeId, 'mariadb', 'large', large)
  const lane = await untilBlocked(pipeId, mariadbId)
  t.equal(lane.blocking_msg_id, ids[messages / 2])
  t.match(lane.last_error, { class: 'permanent', code: 'ER_NET_PACKET_TOO_LARGE' })
  const before = (messages / 2) * each
  t.match(await rowsOf('mariadb', 'large'), { found: before, distinct: before, most: before - 1 })
  t.match(await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${mariadbId}/skip`), {
    body: { skipped: true },
  })
  await drained(daemon, pipeId, mariadbId)
  const rest = messages * each - each
  t.match(await rowsOf('mariadb', 'large'), { found: rest, distinct: rest })

  const postgresId = await attach(pipeId, 'postgresql', 'large', large)
  await drained(daemon, pipeId, postgresId)
  t.match(await rowsOf('postgresql', 'large'), { found: messages * each, distinct: messages * each })
})
