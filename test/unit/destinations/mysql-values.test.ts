/**
 * Whatever is sent to a column is rejected or comes back as it was sent, and values that the column holds are accepted:
 * records go to a table with a column of each type, and the stored values are read back and compared.
 */
import type { RowDataPacket } from 'mysql2/promise'
import t from 'tap'
import { resolvedConfig } from '../../../src/contract/destinations/config-field.ts'
import { database as databaseType } from '../../../src/contract/destinations/database.fields.ts'
import { type DatabaseSpec, noProgress, type RejectedRecord } from '../../../src/destinations/driver.ts'
import { mysql } from '../../../src/destinations/mysql/driver.ts'
import { parameterOf } from '../../../src/destinations/mysql/values.ts'
import { anyKey, makeBatch } from '../../support/batches.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { generator, type Random } from '../../support/random-json.ts'
import { scaled, seed } from '../../support/scale.ts'

const db = await startMariadb()
t.teardown(() => db.stop())

const settings = { databaseTls: false, egress: { allow: [], deny: [], private: 'allow' as const } }

const unused = { ...noProgress, beforeRequest: async () => {}, stored: () => {} }

/** JSON of a value, and the text that the column then has; null: it is rejected. */
type Case = [json: string, stored: string | null]

const columns: Record<string, Case[]> = {
  DOUBLE: [
    ['1.10', '1.1'],
    ['0.1', '0.1'],
    ['0.30000000000000004', '0.30000000000000004'],
    ['9007199254740993', null],
    ['12345678901234567890', null],
    ['12345678901234567168', '12345678901234567000'],
    ['"1e2"', '100'],
    ['1e-400', null],
    ['1e400', null],
    ['"x"', null],
    ['true', '1'],
  ],
  FLOAT: [
    ['16777216', '16777216'],
    ['16777217', null],
    ['"16777217"', null],
    ['0.1', '0.10000000149011612'],
    ['52.52', '52.52000045776367'],
    ['1e39', null],
  ],
  'DOUBLE(10,2)': [
    ['1.25', '1.25'],
    ['1.250', '1.25'],
    ['1.255', null],
  ],
  'DECIMAL(10,2)': [
    ['1.10', '1.10'],
    ['1e3', '1000.00'],
    ['1.101', null],
    ['1e-40', null],
  ],
  'DECIMAL(65,30)': [
    ['12345678901234567890.12345678901234567890', '12345678901234567890.123456789012345678900000000000'],
    ['1e-30', '0.000000000000000000000000000001'],
    ['1e-31', null],
    ['1e-90', null],
    [`0.${'0'.repeat(90)}1`, null],
    [`1.${'0'.repeat(90)}1`, null],
  ],
  BIGINT: [
    ['9223372036854775807', '9223372036854775807'],
    ['9223372036854775808', null],
    ['1e3', '1000'],
    ['10e-1', '1'],
    ['1.0', '1'],
    ['1.5', null],
    ['"  7"', '7'],
    ['""', null],
    ['"0x10"', null],
    ['[1]', null],
  ],
  'BIT(64)': [
    ['5', '5'],
    ['-1', null],
    ['18446744073709551615', '18446744073709551615'],
    ['18446744073709551616', null],
    ['"x"', null],
    ['1e2', '100'],
    ['""', null],
    ['true', '1'],
  ],
  'BIT(4)': [
    ['15', '15'],
    ['16', null],
  ],
  YEAR: [
    ['2026', '2026'],
    ['"2026"', '2026'],
    ['2026.0', '2026'],
    ['26', null],
    ['"5"', null],
    ['0', null],
    ['"0000"', '0'],
    ['true', null],
  ],
  DATE: [
    ['"2026-01-02"', '2026-01-02'],
    ['"20260102"', '2026-01-02'],
    ['"2026-1-2"', '2026-01-02'],
    ['"2026-01-02T00:00:00Z"', '2026-01-02'],
    ['"2026-01-02T00:00:00.000+02:00"', '2026-01-02'],
    ['"2026-01-02 10:00:00"', null],
    ['"2026-02-28T23:30:00-02:00"', null],
    ['"26-01-02"', null],
    ['"260102"', null],
    ['"2026.01.02"', null],
    ['"2026/01/02"', null],
    ['"2026-01-02x"', null],
    ['"2026-02-30"', null],
    ['20260102', null],
    ['true', null],
    ['[20260102]', null],
  ],
  DATETIME: [
    ['"2026-01-02T03:04:05Z"', '2026-01-02 03:04:05'],
    ['"2026-01-02"', '2026-01-02 00:00:00'],
    ['"20260102T030405Z"', '2026-01-02 03:04:05'],
    ['"2026-1-2 3:4"', '2026-01-02 03:04:00'],
    ['"2026-01-02T03:04:05.9Z"', '2026-01-02 03:04:05'],
    ['"2026-01-02T00:30:00+01:00"', '2026-01-01 23:30:00'],
    ['"26-01-02 03:04:05"', null],
    ['"260102030405"', null],
    ['"2026.01.02 03:04:05"', null],
    ['"2026-01-02T03:04.5Z"', null],
    ['"2026-01-02T03:04:05+99:59"', null],
    ['"0000-01-01T00:00:00+02:00"', null],
    ['"9999-12-31T23:30:00-02:00"', null],
    ['true', null],
  ],
  TIME: [
    ['"12:00:01"', '12:00:01'],
    ['"12:30"', '12:30:00'],
    ['"-12:00:01"', '-12:00:01'],
    ['"123:00:01"', '123:00:01'],
    ['"1 02:03:04"', '26:03:04'],
    ['"12:00:00.0"', '12:00:00'],
    ['"12:00:00.9"', null],
    ['"1:2"', null],
    ['"5"', null],
    ['"101112"', null],
    ['"900:00:00"', null],
    ['"12:00:00Z"', null],
    ['"2026-01-02T10:00:00"', null],
    ['true', null],
  ],
  'TIME(3)': [
    ['"12:00:00.125"', '12:00:00.125'],
    ['"12:00:00.125000"', '12:00:00.125'],
    ['"12:00:00.1"', '12:00:00.1'],
    ['"12:00:00.1251"', null],
  ],
  "ENUM('a','b','10','it''s','back\\\\slash','x,y','')": [
    ['"a"', 'a'],
    ['10', '10'],
    ['"it\'s"', "it's"],
    ['"back\\\\slash"', 'back\\slash'],
    ['"x,y"', 'x,y'],
    ['""', ''],
    ['"A"', null],
    ['"a "', null],
    ['2', null],
    ['"+1"', null],
    ['" 1"', null],
    ['true', null],
  ],
  "SET('a','b','8')": [
    ['"a,b"', 'a,b'],
    ['""', ''],
    ['8', '8'],
    ['"A"', null],
    ['3', null],
    ['"+3"', null],
    ['"a,c"', null],
  ],
  'CHAR(10)': [
    ['"abc"', 'abc'],
    ['" abc"', ' abc'],
    ['"abc "', null],
    ['"\\ud800"', null],
    ['{"a":1}', '{"a":1}'],
  ],
  'BINARY(3)': [
    ['"abc"', 'abc'],
    ['"ab"', null],
    ['"abcd"', null],
  ],
  'VARCHAR(5)': [
    ['"abc "', 'abc '],
    ['"abcde "', null],
    ['"\\ud83d\\ude00"', '😀'],
    ['"\\ude00"', null],
    ['1.10', '1.10'],
  ],
  'VARCHAR(5) CHARACTER SET latin1': [
    ['"é"', 'é'],
    ['"東"', null],
  ],
  JSON: [['{"n":123456789012345678901234567890}', '{"n":123456789012345678901234567890}']],
}

/** Sends each value to a column of the type, and returns what is then there; null: the record was rejected. */
async function store(type: string, values: readonly string[]): Promise<(string | null)[]> {
  await db.query(`CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v ${type})`)
  const { host, port, user, password, database } = db
  const config = { host, port, username: user, password, database, table: 't', dialect: 'mysql' as const }
  const spec: DatabaseSpec = {
    ...{ destinationId: 'd', pipeId: 'p', pipeName: 'p', type: 'destination_database', columns: [] },
    ...{ timestampField: 'ingest_ts', config: resolvedConfig(databaseType.fields, config) },
  }
  const driver = mysql.open(spec, settings, anyKey)
  const rejected: RejectedRecord[] = []
  const park = async (refused: readonly RejectedRecord[]) => void rejected.push(...refused)
  try {
    for (let first = 0; first < values.length; first += 500) {
      const texts = values.slice(first, first + 500).map((json, at) => `{"id":${first + at},"v":${json}}`)
      const batch = makeBatch([[]])
      const message = {
        ...batch.messages[0]!,
        body: Buffer.from(texts.join('\n')),
        recordCount: texts.length,
      }
      await driver.deliver({ ...batch, messages: [message] }, new AbortController().signal, {
        ...unused,
        park,
      })
    }
  } finally {
    await driver.close()
  }
  // A prepared statement: as text the server prints a few doubles wrong in their last digit.
  const reader = await db.connect()
  const [rows] = await reader.execute<RowDataPacket[]>(`SELECT id, ${readAs(type)} AS v FROM t`)
  await reader.end()
  const stored = new Map(rows.map(({ id, v }) => [Number(id), String(v)]))
  t.equal(stored.size + rejected.length, values.length, `${type}: every record is stored or rejected`)
  for (const { column, message, recordIndex } of rejected)
    if (column !== 'v' || recordIndex === null) t.fail(`${type}: the rejection names the column: ${message}`)
  return values.map((_, at) => stored.get(at) ?? null)
}

/** The server prints 6 digits of a FLOAT. */
function readAs(type: string): string {
  if (type.startsWith('BIT')) return 'v + 0'
  if (type === 'FLOAT') return 'v + 0e0'
  return /^(BINARY|JSON)/.test(type) ? 'CAST(v AS CHAR)' : 'v'
}

t.test('values of each type are stored as they were sent, or rejected', async (t) => {
  for (const [type, cases] of Object.entries(columns)) {
    const stored = await store(
      type,
      cases.map(([json]) => json),
    )
    for (const [at, [json, wanted]] of cases.entries()) t.equal(stored[at], wanted, `${type} ${json}`)
  }
})

/** Numbers as fractions of whole numbers: `sent` and `stored` are compared without any rounding. */
function isSameNumber(sent: string, stored: string): boolean {
  const parts = (text: string) => /^\s*([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?\s*$/i.exec(text)
  const [one, other] = [parts(sent), parts(stored)]
  if (one === null || other === null) return false
  const scaled = ([, sign, whole = '', fraction = '', exponent = '0']: RegExpExecArray) =>
    BigInt(`${whole}${fraction}${'0'.repeat(400 + Number(exponent) - fraction.length)}`) *
    (sign === '-' ? -1n : 1n)
  return scaled(one) === scaled(other)
}

/** A float holds what is sent if it prints, with that number of digits, the same. */
function isSameFloat(sent: string, stored: string): boolean {
  const digits = sent.replace(/e.*/i, '').replace(/\D/g, '').replace(/^0+/, '').replace(/0+$/, '').length
  return isSameNumber(sent, Number(stored).toPrecision(Math.max(1, digits)))
}

/** The numbers in both texts, from the year or the hours down, are equal: as many as were sent. */
function isSameTime(sent: string, stored: string): boolean {
  const separated = sent
    .trim()
    .replace(/\.\d+$/, '')
    .replace(/^(-?)(\d\d?) (\d+)/, (_, sign, days, hours) => `${sign}${24 * Number(days) + Number(hours)}`)
    .replace(/^(\d{4})(\d\d)(\d\d)/, '$1-$2-$3 ')
    .replace(/[T ](\d\d)(\d\d)(\d\d)$/, ' $1:$2:$3')
  const numbers = (text: string) =>
    [...text.replace(/\.\d+$/, '').matchAll(/\d+/g)].map(([one]) => Number(one))
  const [wanted, found] = [numbers(separated), numbers(stored)]
  const isNegative = (text: string) => text.trim().startsWith('-')
  return (
    isNegative(sent) === isNegative(stored) &&
    wanted.every((one, at) => found[at] === one) &&
    found.slice(wanted.length).every((one) => one === 0)
  )
}

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]!
const below = (random: Random, limit: number): number => Math.floor(random() * limit)
const digits = (random: Random, most: number) =>
  Array.from({ length: 1 + below(random, most) }, () => below(random, 10)).join('')

function randomNumber(random: Random): string {
  const whole = pick(random, [digits(random, 4), digits(random, 22), '0'])
  const fraction = pick(random, ['', `.${digits(random, 4)}`, `.${digits(random, 20)}`])
  const exponent = pick(random, ['', '', '', `e${below(random, 40) - 20}`])
  return `${pick(random, ['', '-'])}${whole.replace(/^0+(?=\d)/, '')}${fraction}${exponent}`
}

function randomYear(random: Random): string {
  return pick(random, [
    digits(random, 4),
    String(1900 + below(random, 260)),
    `20${below(random, 99)}.0`,
    '2e3',
  ])
}

/** A day or time in one of the spellings that servers know, now and then with a character too many or too few. */
function randomTime(random: Random): string {
  const two = (limit: number) => {
    const number = String(below(random, limit))
    return random() < 0.8 ? number.padStart(2, '0') : number
  }
  const year = pick(random, ['2026', '1999', '0026', '26', '6', '10000'])
  const [first, second] = [pick(random, ['-', '-', '.', '/', '']), pick(random, ['-', '-', '.', ''])]
  const day = `${year}${first}${two(14)}${second}${two(33)}`
  const colon = pick(random, [':', ':', ':', '', '.'])
  const seconds = pick(random, ['', `${colon}${two(62)}`, `${colon}${two(60)}.${digits(random, 8)}`])
  const time = `${pick(random, ['', '', '', '-', '1 '])}${two(26)}${colon}${two(61)}${seconds}`
  const text = pick(random, [day, time, `${day}${pick(random, ['T', ' ', '  ', ''])}${time}`])
  if (random() < 0.8) return text
  const at = below(random, text.length)
  return text.slice(0, at) + pick(random, ['', ' ', '0', 'x', ':', '-']) + text.slice(at + below(random, 2))
}

const makers: Record<string, { make: (random: Random) => string; isSame: typeof isSameNumber }> = {
  'DECIMAL(30,10)': { make: randomNumber, isSame: isSameNumber },
  BIGINT: { make: randomNumber, isSame: isSameNumber },
  'BIT(64)': { make: randomNumber, isSame: isSameNumber },
  SMALLINT: { make: randomNumber, isSame: isSameNumber },
  YEAR: { make: randomYear, isSame: isSameNumber },
  DOUBLE: { make: randomNumber, isSame: isSameFloat },
  FLOAT: { make: randomNumber, isSame: isSameFloat },
  DATE: { make: randomTime, isSame: isSameTime },
  'DATETIME(6)': { make: randomTime, isSame: isSameTime },
  'TIME(6)': { make: randomTime, isSame: isSameTime },
}

t.test('random numbers and times are stored as they were sent, or rejected', async (t) => {
  for (const [type, { make, isSame }] of Object.entries(makers)) {
    const random = generator(seed)
    const texts = Array.from({ length: scaled(400) }, () => make(random))
    const sent = texts.map((text) => (make === randomTime || random() < 0.5 ? JSON.stringify(text) : text))
    const stored = await store(type, sent)
    const accepted = texts.flatMap((text, at) => (stored[at] === null ? [] : [[text, stored[at]!] as const]))
    for (const [text, value] of accepted)
      if (!isSame(text, value)) t.fail(`${type}: ${text} was stored as ${value}`)
    t.ok(accepted.length > 5, `${type}: ${accepted.length} of ${texts.length} were accepted`)
  }
})

t.test('negative control: the comparison sees what a server changes by itself', async (t) => {
  t.notOk(isSameNumber('1.5', '2'))
  t.notOk(isSameFloat('16777217', '16777216'))
  t.notOk(isSameTime('26-01-02', '2026-01-02'))
  t.notOk(isSameTime('1:2:3', '01:02:04'))
})

t.test('the JSON of MySQL, which keeps doubles: a number that it would round is rejected', async (t) => {
  const column = {
    ...{ name: 'v', kind: 'document' as const, type: 'json', members: new Set<string>(), timePrecision: 0 },
    ...{ isNotNull: false, hasDefault: true, isGenerated: false },
  }
  const kept = [
    '{"a":1.10,"b":"12345678901234567890123","c":["1e999",-0.5e3,true,null]}',
    '[18446744073709551615,-9223372036854775808,1e300]',
    String.raw`{"\\\"12345678901234567890123":"\\"}`,
    '"12345678901234567890123"',
    '7',
  ]
  const rounded = [
    '{"n":123456789012345678901234567890}',
    '{"d":0.12345678901234567890123}',
    '[1,[-9223372036854775809]]',
    '12345678901234567890123',
    '{"a":1e400}',
    `[${'7'.repeat(2_000)}]`,
  ]
  for (const json of kept) t.equal(parameterOf(json, column), json)
  for (const json of rounded) t.throws(() => parameterOf(json, column), /JSON would round/, json)
})
