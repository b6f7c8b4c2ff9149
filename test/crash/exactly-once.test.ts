/** `exactly_once`: a daemon that is killed again and again under load leaves one copy of every record in the tables. */
import t from 'tap'
import { audit, drained, readAll, startProducer } from '../support/ledger.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { openTableFile } from '../support/table-file.ts'
import { until } from '../support/until.ts'
import { acknowledged, openLedger, restarts } from './ledger-daemon.ts'
import { checkTransformed, isMasked, transformed } from './transformed-lane.ts'

const kills = Math.max(15, restarts)
/** Killed on, until the lanes without it have stored something twice: then the others were tried too. */
const maxKills = 4 * kills

t.test(`one copy of every record through kill -9 under load (${kills} times)`, async (t) => {
  const { daemon, pipeId, pullId } = await openLedger(t)
  const [postgres, mariadb] = [await startPostgres(), await startMariadb()]
  t.teardown(() => Promise.all([postgres.stop(), mariadb.stop()]))
  const lanes: { name: string; id: string; isOnce: boolean; rows(): Promise<number[]> }[] = []
  const changing: typeof lanes = []
  /** The records that the lanes without it have stored. */
  const plain: (() => Promise<{ found: number; numbers: number }>)[] = []
  const file = openTableFile(daemon, 'ledger')
  const ofServer = ({
    host,
    port,
    database,
    user: username,
    password,
  }: typeof postgres | typeof mariadb) => ({
    ...{ host, port, database, username, password },
  })
  const worlds: [string, string, object, (sql: string) => Promise<Record<string, unknown>[]>, string][] = [
    ['postgresql', 'destination_database', ofServer(postgres), (sql) => postgres.query(sql), 'bigserial'],
    [
      ...(['mariadb', 'destination_database', { ...ofServer(mariadb), dialect: 'mariadb' }] as const),
      ...([(sql: string) => mariadb.query(sql), 'bigint AUTO_INCREMENT'] as const),
    ],
    ['sqlite', 'destination_sqlite', { file: 'ledger' }, async (sql) => file.query(sql), 'INTEGER'],
  ]
  for (const [dialect, destination_type, config, query, place] of worlds) {
    for (const table of ['once', 'plain', 'changed']) {
      const isOnce = table !== 'plain'
      await query(`CREATE TABLE ${table} (place ${place} PRIMARY KEY, n int, stamp text)`)
      const id = await daemon.createDestination(pipeId, {
        destination_type,
        destination_config: { ...config, table, exactly_once: isOnce },
        columns: [
          { column_name: 'n', column_type: 'number' },
          { column_name: 'stamp', column_type: 'string' },
        ],
        ...(table === 'changed' ? transformed : {}),
      })
      const rows = async () => {
        const found = await query(`SELECT n, stamp FROM ${table} ORDER BY place`)
        const wrong = found.filter(({ stamp }) => isMasked(stamp) !== (table === 'changed'))
        t.strictSame(wrong.slice(0, 3), [], `${dialect}, ${table}: masked or not`)
        return found.map((row) => Number(row.n))
      }
      const group = table === 'changed' ? changing : lanes
      group.push({ name: `${dialect}, ${table}`, id, isOnce, rows })
      if (isOnce) continue
      plain.push(async () => {
        const [row] = await query(`SELECT count(*) AS found, count(DISTINCT n) AS numbers FROM ${table}`)
        return { found: Number(row?.found), numbers: Number(row?.numbers) }
      })
    }
  }
  const producer = startProducer(daemon, pipeId)
  const isTried = async () =>
    (await Promise.all(plain.map((ask) => ask()))).some((one) => one.found > one.numbers)
  for (let round = 0; round < kills || (round < maxKills && !(await isTried())); round++) {
    const stored = plain[round % plain.length]!
    const { found: before } = await stored()
    await acknowledged(producer, 40 + ((round * 37) % 120))
    // Killed just after a COMMIT: whether the lane has saved it is open.
    await until('a batch of this run is stored', async () => (await stored()).found > before, { everyMs: 1 })
    await daemon.kill()
    await daemon.start()
  }
  await acknowledged(producer, 50)
  await producer.stop()

  const { numbers } = await readAll(daemon, pullId)
  let repeatsWithout = 0
  for (const { name, id, isOnce, rows } of lanes) {
    const { last_error, skipped_messages } = await drained(daemon, pipeId, id)
    t.match({ last_error, skipped_messages }, { last_error: null, skipped_messages: 0 }, name)
    const found = audit(producer, await rows(), numbers)
    t.match(found, { missing: [], unknown: [] }, `${name}: every record`)
    if (isOnce) t.match(found, { repeats: 0, outOfOrder: [] }, `${name}: once, in order`)
    else repeatsWithout += found.repeats
  }
  for (const { name, id, isOnce, rows } of changing)
    await checkTransformed(t, name, {
      ...{ daemon, pipeId, id, producer, inOrder: numbers, isOnce },
      arrived: rows,
    })
  t.ok(repeatsWithout > 0, `negative control: ${repeatsWithout} repeats without exactly_once`)
})
