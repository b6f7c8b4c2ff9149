/**
 * A pipe with two destinations in a database. One keeps every record exactly once, in order; the other the last record of each key.
 * Records come one by one and in bulk, the server crashes in the middle, and some records do not fit.
 */
import type { Test } from 'tap'
import type { TestDaemon } from '../support/daemon.ts'
import { drained, readAll } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { columnsOf, comparable, type Dialect, expectedRow, readBack, typedRecord } from './typed-records.ts'

export interface TableServer {
  dialect: Dialect
  /** Host, port, database, username, password, and how it is verified. */
  config: Readonly<Record<string, unknown>>
  query(sql: string): Promise<Record<string, unknown>[]>
  /** Ends the server as a crash does. */
  halt(): Promise<void>
  start(): Promise<void>
  /** Makes a hypertable, which has no key, of the table with this name. */
  asHypertable?(table: string): Promise<void>
}

const keys = 50
const keyOf = (n: number) => n % keys
const place = {
  postgresql: 'bigserial',
  mysql: 'bigint AUTO_INCREMENT UNIQUE',
  mariadb: 'bigint AUTO_INCREMENT UNIQUE',
}

interface World {
  t: Test
  daemon: TestDaemon
  server: TableServer
  pipeId: string
  pullId: string
  onceId: string
  /** Null with a hypertable. */
  keyedId: string | null
  sent: number
}

export async function storesTables(t: Test, daemon: TestDaemon, server: TableServer): Promise<void> {
  const world = await open(t, daemon, server)
  await inBulk(world)
  await overACrash(world)
  await withRejects(world)
  await compare(world)
}

async function open(t: Test, daemon: TestDaemon, server: TableServer): Promise<World> {
  const { dialect, query } = server
  await query(`CREATE TABLE once (place ${place[dialect]}, ${columnsOf(dialect)})`)
  await query(`CREATE TABLE keyed (slot int PRIMARY KEY, ${columnsOf(dialect)})`)
  await server.asHypertable?.('once')
  const pipeId = await daemon.createPipe({ pipe_name: t.name, pipe_add_ingest_ts: false })
  const destination = (table: string, more: object, columns?: object[]) => ({
    destination_type: 'destination_database',
    destination_name: table,
    destination_config: { dialect, table, ...server.config, ...more },
    ...(columns === undefined ? {} : { columns }),
    on_permanent_error: 'park',
  })
  const once = destination('once', { exactly_once: true })
  const { body, text } = await daemon.api<{ checks: { name: string; ok: boolean; message: string }[] }>(
    'POST',
    `/v1/pipes/${pipeId}/destinations/test`,
    once,
  )
  t.ok(body.checks?.length > 4 && body.checks.every(({ ok }) => ok), text)
  if (dialect === 'postgresql')
    t.match(
      body.checks.find(({ name }) => name === 'written_by')?.message,
      /COPY/,
      'large batches are copied',
    )
  const slot = {
    column_name: 'slot',
    column_type: 'number',
    semantic_role: 'dedupe_id',
    source_field: 'slot',
  }
  const names = columnsOf(dialect)
    .split(/, (?=\w+ )/)
    .map((one) => ({ column_name: one.split(' ')[0], column_type: 'string' }))
  const pull = { destination_type: 'destination_pull', destination_config: {} }
  return {
    ...{ t, daemon, server, pipeId, sent: 0 },
    pullId: await daemon.createDestination(pipeId, pull),
    onceId: await daemon.createDestination(pipeId, once),
    keyedId:
      server.asHypertable === undefined
        ? await daemon.createDestination(pipeId, destination('keyed', {}, [slot, ...names]))
        : null,
  }
}

/** Every record has a key of its own message, of which the last one stays in the keyed table. */
async function send(world: World, count: number, bad: readonly number[] = []): Promise<void> {
  const records = Array.from({ length: count }, (_, index) => {
    const n = world.sent++
    return typedRecord(n, { bad: bad.includes(index) }).replace('{', `{"slot":${keyOf(n)},`)
  })
  await world.daemon.ingest(world.pipeId, `[${records.join(',')}]`)
}

const lanes = ({ onceId, keyedId }: World) => (keyedId === null ? [onceId] : [onceId, keyedId])

async function allDrained(world: World): Promise<Record<string, unknown>[]> {
  return await Promise.all(lanes(world).map((id) => drained(world.daemon, world.pipeId, id)))
}

async function inBulk(world: World): Promise<void> {
  for (let message = 0; message < 5; message += 1) await send(world, 1)
  await allDrained(world)
  for (let message = 0; message < 3; message += 1) await send(world, 150)
  await allDrained(world)
}

async function overACrash(world: World): Promise<void> {
  const { daemon, pipeId, server } = world
  const sending = (async () => {
    for (let message = 0; message < 40; message += 1) await send(world, 3)
  })()
  await server.halt()
  await sending
  await send(world, 150)
  for (const id of lanes(world))
    await until('the lane retries', async () => (await daemon.lane(pipeId, id)).lane_state === 'retrying')
  await server.start()
  for (const id of lanes(world)) await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${id}/retry-now`)
  await allDrained(world)
}

async function withRejects(world: World): Promise<void> {
  await send(world, 1, [0])
  await send(world, 150, [70])
  await send(world, 2)
  for (const lane of await allDrained(world))
    world.t.match(lane, { parked_records: 2, delivered_records: world.sent - 2, dropped_messages: 0 })
}

async function compare({ t, daemon, server, pullId, keyedId, sent }: World): Promise<void> {
  const { dialect, query } = server
  const { numbers } = await readAll(daemon, pullId)
  t.equal(numbers.length, sent)
  const first = sent - 153
  const stored = numbers.filter((n) => n !== first && n !== first + 71)
  t.equal(stored.length, sent - 2)
  const rows = (await query(readBack(dialect, 'once', 'place'))).map(comparable)
  t.same(
    rows,
    stored.map((n) => expectedRow(n, dialect)),
    'every record exactly once, in order, with every value',
  )
  if (keyedId === null) return
  const last = new Map(stored.map((n) => [keyOf(n), n]))
  const kept = (await query(readBack(dialect, 'keyed', 'slot'))).map(comparable)
  t.same(
    kept,
    Array.from({ length: keys }, (_, slot) => expectedRow(last.get(slot) ?? -1, dialect)),
    'the last record of every key',
  )
}
