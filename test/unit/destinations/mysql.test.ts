import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { ColumnMapping } from '../../../src/contract/destination.ts'
import { resolvedConfig } from '../../../src/contract/destinations/config-field.ts'
import { database as databaseType } from '../../../src/contract/destinations/database.fields.ts'
import { type Batch, type DatabaseSpec, DeliveryError } from '../../../src/destinations/driver.ts'
import { mysql } from '../../../src/destinations/mysql/driver.ts'
import { anyKey } from '../../support/batches.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { startProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

// The server is lax and five hours ahead on purpose: the driver must not rely on its defaults.
const db = await startMariadb({ tls: true })
t.teardown(() => db.stop())

const settings = { databaseTls: false, egress: { allow: [], deny: [], private: 'allow' as const } }
const never = new AbortController().signal
const receivedMs = Date.parse('2026-01-02T03:04:05.678Z')

function column(name: string, more: Partial<ColumnMapping> = {}): ColumnMapping {
  return {
    column_name: name,
    column_type: 'string',
    source_field: null,
    semantic_role: null,
    nullable: true,
    ...more,
  }
}
function spec(
  table: string,
  columns: ColumnMapping[] = [],
  config: Record<string, unknown> = {},
): DatabaseSpec {
  const { host, port, user, password, database } = db
  return {
    destinationId: 'd',
    pipeId: 'p',
    pipeName: 'orders',
    type: 'destination_database',
    columns,
    timestampField: 'ingest_ts',
    config: resolvedConfig(databaseType.fields, {
      ...{ host, port, username: user, password, database, table, dialect: 'mysql', ...config },
    }),
  }
}
/** One message a string; several records in a message are lines. `msg_id` depends on the place alone. */
function batchOf(...bodies: string[]): Batch {
  const messages = bodies.map((text, at) => ({
    seq: 101 + at,
    pipeId: 'p',
    msgId: `msg-${at}`,
    receivedMs,
    recordCount: text.split('\n').length,
    body: Buffer.from(text),
  }))
  return {
    identity: 'i',
    firstSeq: 101,
    lastSeq: 100 + messages.length,
    messages,
    recordCount: messages.length,
    byteCount: 0,
    recordOffset: 0,
  }
}
async function deliver(to: DatabaseSpec, batch: Batch, signal = never, using = settings): Promise<void> {
  const driver = mysql.open(to, using, anyKey)
  try {
    await driver.deliver(batch, signal)
  } finally {
    await driver.close()
  }
}
async function failure(work: Promise<unknown>): Promise<DeliveryError> {
  const error = await work.then(
    () => new Error('should have failed'),
    (reason: unknown) => reason,
  )
  if (error instanceof DeliveryError) return error
  throw error
}
let tables = 0
/** A new table; the name is given back. */
async function table(columns: string): Promise<string> {
  const name = `t${++tables}`
  await db.query(`CREATE TABLE ${name} (${columns})`)
  return name
}
async function count(name: string): Promise<number> {
  return Number((await db.query(`SELECT COUNT(*) AS n FROM ${name}`))[0]?.n)
}

t.test(
  'values arrive as they were sent: numbers losslessly, text, booleans, JSON, null, times in UTC',
  async (t) => {
    const name =
      await table(`big BIGINT UNSIGNED, price DECIMAL(30,10), words TEXT, yes BOOLEAN, flags BIT(4), doc JSON, list JSON, word JSON, missing INT,
    at DATETIME(3), stamp TIMESTAMP NULL, day DATE, shifted DATETIME, note TEXT`)
    await deliver(
      spec(name),
      batchOf(
        String.raw`{"big":18446744073709551615,"price":12345678901234567890.1234567890,"words":"ä \"q\" 'x'; -- \\ \u0000","yes":true,"flags":5,"doc":{"n":1.10,"a":[1]},"list":[9007199254740993],"word":"w","missing":null,"at":"2026-01-02T03:04:05.678Z","stamp":"2026-01-02T03:04:05Z","day":"2026-01-02T00:00:00-02:00","shifted":"2026-01-02T03:04:05+05:30","note":false,"other":1}`,
      ),
    )
    const [row] = await db.query(
      `SELECT *, CAST(doc AS CHAR) AS doc, CAST(list AS CHAR) AS list, CAST(word AS CHAR) AS word, flags+0 AS flags, UNIX_TIMESTAMP(stamp) AS stamp FROM ${name}`,
    )
    t.match(row, {
      big: '18446744073709551615',
      price: '12345678901234567890.1234567890',
      words: 'ä "q" \'x\'; -- \\ \0',
      yes: 1,
      missing: null,
      at: '2026-01-02 03:04:05.678',
      day: '2026-01-02',
      shifted: '2026-01-01 21:34:05',
      note: 'false',
    })
    t.equal(row?.doc, '{"n":1.10,"a":[1]}')
    t.equal(row?.list, '[9007199254740993]')
    t.equal(row?.word, '"w"')
    t.equal(Number(row?.flags), 5)
    t.equal(Number(row?.stamp), Date.parse('2026-01-02T03:04:05Z') / 1000)
  },
)

t.test(
  'column rules: source_field, key named like the column, received_at, record_ts, generated dedupe id',
  async (t) => {
    const name = await table('id VARCHAR(60) PRIMARY KEY, a INT, b INT, got DATETIME(3), ts DATETIME')
    const columns = [
      column('id', { semantic_role: 'dedupe_id' }),
      column('a'),
      column('b', { source_field: 'x y' }),
      column('got', { semantic_role: 'received_at' }),
      column('ts', { semantic_role: 'record_ts' }),
    ]
    const batch = batchOf('{"a":1,"x y":2,"ingest_ts":"2026-05-06T07:08:09Z"}\n{"a":3}', '{"b":9}')
    await deliver(spec(`${db.database}.${name}`, columns), batch)
    await deliver(spec(name, columns), batch)
    t.same(
      (await db.query(`SELECT * FROM ${name} ORDER BY id`)).map((row) => Object.values(row)),
      [
        ['msg-0:0', 1, 2, '2026-01-02 03:04:05.678', '2026-05-06 07:08:09'],
        ['msg-0:1', 3, null, '2026-01-02 03:04:05.678', null],
        ['msg-1:0', null, null, '2026-01-02 03:04:05.678', null],
      ],
    )
  },
)

t.test('without mappings columns are matched by name and the table fills the rest', async (t) => {
  const name = await table(
    'id INT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL DEFAULT 7, b INT, twice INT AS (b * 2)',
  )
  await deliver(spec(name), batchOf('{"a":1,"b":2,"twice":5}', '{"b":3}', '{"a":4,"zzz":1}'))
  t.same(
    (await db.query(`SELECT a, b, twice FROM ${name} ORDER BY id`)).map((row) => Object.values(row)),
    [
      [1, 2, 4],
      [7, 3, 6],
      [4, null, null],
    ],
  )
  t.match(await failure(deliver(spec(name), batchOf('{"a":1}', '{"zzz":1}'))), {
    code: 'no_matching_column',
    failedSeq: 102,
  })
})

t.test('upsert: the last record of a batch and of later batches wins', async (t) => {
  const name = await table('id VARCHAR(10) PRIMARY KEY, v INT')
  const columns = [column('id', { semantic_role: 'dedupe_id', source_field: 'id' }), column('v')]
  await deliver(
    spec(name, columns),
    batchOf('{"id":"a","v":1}\n{"id":"b","v":1}\n{"id":"A","v":2}', '{"id":"a","v":3}'),
  )
  await deliver(spec(name, columns), batchOf('{"id":"b","v":9}'))
  t.same(
    (await db.query(`SELECT v FROM ${name} ORDER BY id`)).map((row) => row.v),
    [3, 9],
  )
})

t.test(
  'an upsert never overwrites the row of another dedupe value that another unique key brings up',
  async (t) => {
    const name = await table('id INT PRIMARY KEY, email VARCHAR(10) UNIQUE, v INT')
    const columns = [
      column('id', { semantic_role: 'dedupe_id', source_field: 'id' }),
      column('email'),
      column('v'),
    ]
    await deliver(spec(name, columns), batchOf('{"id":1,"email":"a","v":1}'))
    const error = await failure(
      deliver(spec(name, columns), batchOf('{"id":1,"email":"a","v":2}', '{"id":2,"email":"a","v":3}')),
    )
    t.match(error, { class: 'permanent', failedSeq: 102 })
    t.same(
      (await db.query(`SELECT id, v FROM ${name}`)).map((row) => [row.id, row.v]),
      [[1, 1]],
    )
  },
)

t.test(
  'a dedupe column without a unique key, a missing column, a missing table: permanent, naming the first message',
  async (t) => {
    const name = await table('id INT, v INT')
    t.match(
      await failure(deliver(spec(name, [column('id', { semantic_role: 'dedupe_id' })]), batchOf('{}', '{}'))),
      { class: 'permanent', code: 'no_unique_key', failedSeq: 101 },
    )
    t.match(await failure(deliver(spec(name, [column('nope')]), batchOf('{}'))), {
      class: 'permanent',
      code: 'ER_BAD_FIELD_ERROR',
      failedSeq: 101,
      message: /"nope"/,
    })
    t.match(await failure(deliver(spec('absent'), batchOf('{}'))), {
      class: 'permanent',
      code: 'ER_NO_SUCH_TABLE',
      failedSeq: 101,
    })
    t.match(await failure(deliver(spec(name, [], { password: 'not-the-password' }), batchOf('{}'))), {
      class: 'permanent',
      code: 'ER_ACCESS_DENIED_ERROR',
      failedSeq: 101,
    })
  },
)

const poison: [what: string, record: string, code: string][] = [
  ['too long', '{"id":-1,"s":"abcdef"}', 'ER_DATA_TOO_LONG'],
  ['trailing spaces lost', '{"id":-1,"s":"abcde "}', 'WARN_DATA_TRUNCATED'],
  ['out of range', '{"id":-1,"tiny":300}', 'ER_WARN_DATA_OUT_OF_RANGE'],
  ['NOT NULL', '{"id":-1,"must":null}', 'ER_BAD_NULL_ERROR'],
  ['wrong type', '{"id":-1,"tiny":"many"}', 'ER_TRUNCATED_WRONG_VALUE_FOR_FIELD'],
  ['object for a number', '{"id":-1,"tiny":{"a":1}}', 'ER_TRUNCATED_WRONG_VALUE_FOR_FIELD'],
  ['digits lost', '{"id":-1,"price":1.239}', 'WARN_DATA_TRUNCATED'],
  ['fraction for a whole number', '{"id":-1,"tiny":1.5}', 'invalid_value'],
  ['number for a time', '{"id":-1,"at":1012251530}', 'invalid_value'],
  ['no such day', '{"id":-1,"at":"2026-02-31T00:00:00Z"}', 'ER_TRUNCATED_WRONG_VALUE'],
  ['place of an enum value', '{"id":-1,"e":2}', 'invalid_value'],
  ['not JSON', '{"id":-1,"plain":"x","doc":{}}', 'ER_CONSTRAINT_FAILED'],
  ['unique violation', '{"id":5000}', 'ER_DUP_ENTRY'],
]
t.test(
  'one bad record among 1,200 is found wherever it is, with the server code, and nothing is stored',
  async (t) => {
    const name = await table(
      `id INT PRIMARY KEY, s VARCHAR(5), tiny TINYINT UNSIGNED, must INT NOT NULL DEFAULT 1, price DECIMAL(10,2), at DATETIME, e ENUM('a','b'), doc JSON, plain TEXT, CHECK (plain IS NULL OR plain <> 'x')`,
    )
    await db.query(`INSERT INTO ${name} (id) VALUES (5000)`)
    const driver = mysql.open(spec(name), settings, anyKey)
    t.teardown(() => driver.close())
    for (const [what, record, code] of poison)
      for (const place of [0, 613, 1199]) {
        const records = Array.from({ length: 1200 }, (_, at) =>
          at === place ? record : `{"id":${at},"s":"ok"}`,
        )
        const error = await failure(driver.deliver(batchOf(...records), never))
        t.match(error, { class: 'permanent', code, failedSeq: 101 + place }, `${what} at ${place}`)
      }
    t.equal(await count(name), 1, 'nothing but the row that was there')
    await driver.deliver(batchOf('{"id":1,"s":"ok"}'), never)
    t.equal(await count(name), 2, 'control: the same driver delivers what is good')
  },
)

t.test('a record over max_allowed_packet is rejected by name before the connection dies', async (t) => {
  const name = await table('v LONGTEXT')
  const driver = mysql.open(spec(name), settings, anyKey)
  t.teardown(() => driver.close())
  const error = await failure(
    driver.deliver(batchOf('{"v":"a"}', `{"v":"${'x'.repeat(17_000_000)}"}`, '{"v":"b"}'), never),
  )
  t.match(error, {
    class: 'permanent',
    code: 'ER_NET_PACKET_TOO_LARGE',
    failedSeq: 102,
    message: /max_allowed_packet/,
  })
  const large = `{"v":"${'x'.repeat(6_000_000)}"}`
  await driver.deliver(batchOf(large, large, large, large), never)
  t.equal(await count(name), 4, 'control: 24 MB in records of 6 MB are split and stored')
})

t.test('objects and arrays are one value each: they cannot widen a statement', async (t) => {
  const name = await table('a TEXT, b TEXT')
  await deliver(
    spec(name),
    batchOf(
      '{"a":["x","y"],"b":{"a":1,"toSqlString":"evil"}}',
      '{"a":"\'); DROP TABLE t1; --","b":[[1],[2]]}',
    ),
  )
  t.same(
    (await db.query(`SELECT a, b FROM ${name}`)).map((row) => [row.a, row.b]),
    [
      ['["x","y"]', '{"a":1,"toSqlString":"evil"}'],
      ["'); DROP TABLE t1; --", '[[1],[2]]'],
    ],
  )
})

t.test('identifiers are quoted, whatever is in them', async (t) => {
  await db.query('CREATE TABLE `we``ird "t" --` (`a``b; --` INT)')
  await deliver(spec('we`ird "t" --', [column('a`b; --', { source_field: 'x' })]), batchOf('{"x":3}'))
  t.same(
    (await db.query('SELECT `a``b; --` AS v FROM `we``ird "t" --`')).map((row) => row.v),
    [3],
  )
})

t.test('deadlock and lock wait are transient', async (t) => {
  const name = await table('id INT PRIMARY KEY, v INT')
  await db.query(`INSERT INTO ${name} VALUES (1,1),(2,2)`)
  const columns = [column('id', { semantic_role: 'dedupe_id', source_field: 'id' }), column('v')]
  const other = await db.connect()
  t.teardown(() => other.end())
  await other.query('BEGIN')
  // The other side has written more, so InnoDB picks the driver's transaction as the victim.
  await other.query(`INSERT INTO ${name} SELECT seq + 100, 0 FROM seq_1_to_3000`)
  await other.query(`UPDATE ${name} SET v = 5 WHERE id = 2`)
  const driver = mysql.open(spec(name, columns), settings, anyKey)
  t.teardown(() => driver.close())
  const attempt = failure(driver.deliver(batchOf('{"id":1,"v":7}', '{"id":2,"v":7}'), never))
  await until(
    'the driver waits for the lock',
    async () =>
      (await db.query("SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'")).length >
      0,
    // The server shows a snapshot, and makes a new one only when nobody has looked for a tenth of a second.
    { everyMs: 250 },
  )
  await other.query(`UPDATE ${name} SET v = 5 WHERE id = 1`)
  t.match(await attempt, { class: 'transient', code: 'ER_LOCK_DEADLOCK' })
  await other.query('ROLLBACK')
  await driver.deliver(batchOf('{"id":1,"v":7}'), never)
  t.equal(Number((await db.query(`SELECT v FROM ${name} WHERE id = 1`))[0]?.v), 7, 'the same driver goes on')
})

t.test('a statement that ran out of time was rolled back: fewer rows may go at once', async (t) => {
  await db.query('CREATE TABLE slow_rows (v INT)')
  await db.query(`CREATE TRIGGER slow_rows_insert BEFORE INSERT ON slow_rows FOR EACH ROW
    IF NEW.v > 1 THEN SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1969, MESSAGE_TEXT = 'took too long'; END IF`)
  const driver = mysql.open(spec('slow_rows'), settings, anyKey)
  t.teardown(() => driver.close())
  const error = await failure(driver.deliver(batchOf('{"v":1}', '{"v":2}'), never))
  t.match(error, { class: 'transient', code: 'ER_STATEMENT_TIMEOUT', timedOut: 'rolled_back' })
  t.equal((await db.query('SELECT 1 FROM slow_rows')).length, 0)
})

t.test(
  'TLS is used for every host but localhost and 127.0.0.1, and there when the setting says so',
  async (t) => {
    const name = await table('v INT, cipher VARCHAR(100)')
    await db.query(
      `CREATE TRIGGER tls_of BEFORE INSERT ON ${name} FOR EACH ROW SET NEW.cipher = (SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher')`,
    )
    await deliver(spec(name), batchOf('{"v":1}'))
    await deliver(spec(name), batchOf('{"v":2}'), never, { ...settings, databaseTls: true })
    const proxy = await startProxy({ host: db.host, port: db.port }, '127.0.0.2')
    t.teardown(() => proxy.stop())
    await deliver(spec(name, [], { host: proxy.host, port: proxy.port }), batchOf('{"v":3}'))
    const ciphers = (await db.query(`SELECT cipher FROM ${name} ORDER BY v`)).map((row) => row.cipher !== '')
    t.same(ciphers, [false, true, true])
  },
)

t.test('a server without TLS where TLS is required: permanent, and it says so', async (t) => {
  const plain = await startMariadb()
  t.teardown(() => plain.stop())
  const error = await failure(
    deliver(spec('x', [], { port: plain.port, password: plain.password }), batchOf('{}'), never, {
      ...settings,
      databaseTls: true,
    }),
  )
  t.match(error, { class: 'permanent', code: 'HANDSHAKE_NO_SSL_SUPPORT', failedSeq: 101 })
})

t.test(
  'test of a destination: connect, authenticate, table, columns, dedupe_id, insert; nothing is stored',
  async (t) => {
    const name = await table('id INT PRIMARY KEY, must INT NOT NULL')
    const id = column('id', { semantic_role: 'dedupe_id', source_field: 'id' })
    const good = await mysql.check(spec(name, [id, column('must')]), settings, never)
    t.same(
      good.map((check) => check.name),
      ['connect', 'authenticate', 'table', 'transactions', 'columns', 'dedupe_id', 'insert', 'written_by'],
    )
    t.ok(good.every((check) => check.ok))
    t.equal(await count(name), 0)
    const failing = async (to: DatabaseSpec) =>
      (await mysql.check(to, settings, never)).filter((check) => !check.ok).map((check) => check.name)
    t.same(await failing(spec(name, [id])), ['columns'], 'a NOT NULL column that nothing fills')
    t.same(await failing(spec(name, [column('nope')])), ['columns'])
    t.same(await failing(spec(name, [column('must', { semantic_role: 'dedupe_id' })])), ['dedupe_id'])
    t.same(await failing(spec('absent')), ['table'])
    t.same(await failing(spec(name, [], { password: 'x' })), ['authenticate'])
    t.same(await failing(spec(name, [], { port: 1 })), ['connect'])
  },
)

t.test(
  'a silent server: the aborted attempt ends; a stopped one is transient; both deliver again later',
  async (t) => {
    const name = await table('id VARCHAR(60) PRIMARY KEY, v INT')
    const columns = [column('id', { semantic_role: 'dedupe_id' }), column('v')]
    const driver = mysql.open(spec(name, columns), settings, anyKey)
    t.teardown(() => driver.close())
    await driver.deliver(batchOf('{"v":1}'), never)
    db.pause()
    const stop = new AbortController()
    const attempt = failure(driver.deliver(batchOf('{"v":2}'), stop.signal))
    stop.abort()
    t.match(await attempt, { class: 'transient', code: 'aborted' })
    db.resume()
    await driver.deliver(batchOf('{"v":3}'), never)
    await db.shutDown()
    t.match(await failure(driver.deliver(batchOf('{"v":4}'), never)), { class: 'transient' })
    await db.start()
    await driver.deliver(batchOf('{"v":5}', `{"v":${randomUUID().length}}`), never)
    t.equal(await count(name), 2)
  },
)

t.test(
  'a response lost after COMMIT: the same batch again leaves one copy with a dedupe_id, two without',
  async (t) => {
    const proxy = await startProxy({ host: db.host, port: db.port })
    t.teardown(() => proxy.stop())
    // An OK packet, number 1, no rows, and the status flags of a session that is in no transaction any more.
    const committed = '\x07\0\0\x01\0\0\0\0\0\0\0'
    for (const [role, copies] of [
      ['dedupe_id', 1],
      [null, 2],
    ] as const) {
      const name = await table('id VARCHAR(60) PRIMARY KEY DEFAULT UUID(), v INT')
      const columns = [...(role ? [column('id', { semantic_role: role })] : []), column('v')]
      const driver = mysql.open(spec(name, columns, { port: proxy.port }), settings, anyKey)
      await driver.deliver(batchOf('{"v":1}'), never)
      await db.query(`DELETE FROM ${name}`)
      proxy.setMode({ kind: 'cut_at_reply', text: committed, times: 1 })
      t.match(await failure(driver.deliver(batchOf('{"v":2}'), never)), { class: 'transient' })
      t.equal(await count(name), 1, 'the server has committed, and the driver cannot know')
      await driver.deliver(batchOf('{"v":2}'), never)
      t.equal(await count(name), copies)
      await driver.close()
    }
  },
)
