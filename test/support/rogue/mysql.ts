/** An honest MySQL server, as far as the driver goes: log-in, settings, catalog, prepared inserts. And its ways to misbehave. */
import { endless, type Fault, goodbye, type HonestSession } from './rogue-server.ts'

type Part = Buffer | string | number[]

function joined(...parts: Part[]): Buffer {
  return Buffer.concat(parts.map((part) => Buffer.from(part as string)))
}
/** length u24, sequence number u8, payload. */
export function packet(sequence: number, ...parts: Part[]): Buffer {
  const payload = joined(...parts)
  const header = Buffer.alloc(4)
  header.writeUIntLE(payload.length, 0, 3)
  header[3] = sequence & 0xff
  return Buffer.concat([header, payload])
}
const u16 = (value: number) => [value & 0xff, (value >> 8) & 0xff]
const text = (value: string) => joined([value.length], value)
const ok = [0, 0, 0, 2, 0, 0, 0]
const eof = [0xfe, 0, 0, 2, 0]

/** Protocol 4.1, secure authentication, named plugins, a database; with TLS where asked for. */
export function greeting(isTls: boolean, plugin = 'mysql_native_password'): Buffer {
  const low = 0xf7ff & ~0x0820
  return packet(
    0,
    [0x0a],
    '8.0.36\0',
    [1, 0, 0, 0],
    'saltsalt',
    [0],
    u16(isTls ? low | 0x0800 : low),
    [0x2d],
    u16(2),
    u16(0x0008),
    [21],
    Buffer.alloc(10),
    'saltsaltsalt\0',
    `${plugin}\0`,
  )
}

const column = (name: string) =>
  joined(...['def', '', '', '', name, name].map(text), [0x0c, 0x2d, 0, 0xff, 0xff, 0, 0, 0xfd, 0, 0, 0, 0, 0])

/** A result of binary rows. */
function result(rows: Record<string, string | null>[], names: string[]): Buffer {
  let sequence = 1
  const packets = [packet(sequence++, [names.length])]
  for (const name of names) packets.push(packet(sequence++, column(name)))
  packets.push(packet(sequence++, eof))
  for (const row of rows) {
    const nulls = Buffer.alloc((names.length + 9) >> 3)
    const values = names.flatMap((name, index) => {
      const value = row[name] ?? null
      if (value !== null) return [text(value)]
      nulls[(index + 2) >> 3]! |= 1 << ((index + 2) & 7)
      return []
    })
    packets.push(packet(sequence++, [0], nulls, ...values))
  }
  packets.push(packet(sequence++, eof))
  return Buffer.concat(packets)
}

/** Types by the columns' names. */
type Columns = Record<string, string>

function answerTo(sql: string, columns: Columns): Buffer {
  if (sql.includes('max_allowed_packet'))
    return result([{ packet: '1000000', version: '8.0.36' }], ['packet', 'version'])
  if (sql.includes('information_schema.COLUMNS')) {
    const names = ['name', 'kind', 'type', 'nullable', 'dflt', 'extra', 'fraction', 'expression']
    const rows = Object.entries(columns).map(([name, type]) => ({
      name,
      kind: type.replace(/\(.*/, ''),
      type,
      nullable: 'YES',
      extra: '',
      expression: '',
    }))
    return result(rows, names)
  }
  if (sql.includes('STATISTICS')) return result([], ['name', 'col', 'prefix'])
  if (sql.includes('information_schema.TABLES')) return result([{ answer: 'YES' }], ['answer'])
  return packet(1, ok)
}

function prepared(id: number, sql: string): Buffer {
  const parameters = sql.split('?').length - 1
  const packets = [packet(1, [0, id, 0, 0, 0, 0, 0], u16(parameters), [0, 0, 0])]
  for (let place = 0; place < parameters; place++) packets.push(packet(2 + place, column('?')))
  if (parameters > 0) packets.push(packet(2 + parameters, eof))
  return Buffer.concat(packets)
}

/** Steps: 0 greeting, 1 log-in, 2 settings, 3 and 4 the server's facts, 5 to 10 the catalog, 11 COMMIT, 12 prepare, 13 insert, 14 COMMIT. */
export function honestMysql(plugin?: string, columns: Columns = { v: 'varchar(20)' }): HonestSession {
  let held = Buffer.alloc(0)
  let isLoggedIn = false
  let isTls = false
  const statements: string[] = []
  return {
    // startRogue sends it in clear before TLS, or as the first step.
    greeting: greeting(false, plugin),
    startsTls(request) {
      isTls = true
      return { reply: Buffer.alloc(0), rest: request.subarray(4 + request.readUIntLE(0, 3)) }
    },
    answer(chunk) {
      held = Buffer.concat([held, chunk])
      const answers: Buffer[] = []
      for (;;) {
        if (held.length < 4) return answers
        const end = 4 + held.readUIntLE(0, 3)
        if (held.length < end) return answers
        const payload = held.subarray(4, end)
        held = held.subarray(end)
        if (!isLoggedIn) {
          isLoggedIn = true
          answers.push(packet(isTls ? 3 : 2, ok))
          continue
        }
        const [command] = payload
        const sql = payload.toString('latin1', 1)
        if (command === 0x01) answers.push(goodbye)
        else if (command === 0x03) answers.push(answerTo(sql, columns))
        else if (command === 0x16) answers.push(prepared(statements.push(sql), sql))
        else if (command === 0x17)
          answers.push(answerTo(statements[payload.readUInt32LE(1) - 1] ?? '', columns))
      }
    },
  }
}

const instead =
  (...parts: Buffer[]): Fault =>
  (socket) =>
    void socket.write(Buffer.concat(parts))
const then =
  (...parts: Buffer[]): Fault =>
  (socket, honest) =>
    void socket.write(Buffer.concat([honest, ...parts]))
/** With the sequence number that the honest answer has. */
const with1 =
  (...parts: Part[]): Fault =>
  (socket, honest) =>
    void socket.write(packet(honest[3] ?? 0, ...parts))
const error = (code: number, message: string) => joined([0xff], u16(code), '#HY000', message)

/** Beside the common ones. */
export const mysqlFaults: Record<string, Fault> = {
  'an empty packet': with1(),
  'a packet of one byte': with1([0x0a]),
  'a length of 16 MiB and silence': instead(Buffer.from('ffffff00', 'hex')),
  'a length of 16 MiB and data': (socket) =>
    endless(socket, Buffer.from('ffffff00', 'hex'), Buffer.alloc(65_536)),
  'packets of 16 MiB without end': (socket) =>
    endless(
      socket,
      Buffer.alloc(0),
      Buffer.concat([Buffer.from('ffffff00', 'hex'), Buffer.alloc(16_777_215)]),
    ),
  'the wrong sequence number': instead(packet(77, ok)),
  'the same answer twice': (socket, honest) => void socket.write(Buffer.concat([honest, honest])),
  'OK before the answer': (socket, honest) => void socket.write(Buffer.concat([packet(1, ok), honest])),
  'OK after the answer': then(packet(1, ok)),
  'a thousand times OK': then(...Array<Buffer>(1000).fill(packet(1, ok))),
  'EOF alone': with1(eof),
  'OK that is cut': with1([0]),
  'OK of a huge count': with1([0, 0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 0, 2, 0, 0, 0]),
  'OK with session state that is cut': with1([0, 0, 0, 2, 0x40, 0, 0, 0xfc, 0xff, 0xff]),
  'an error without a code': with1([0xff]),
  'an error without a text': with1([0xff, 1, 4]),
  'an error of 10 MB': with1(error(1105, 'x'.repeat(10_000_000))),
  'an error of escape sequences': with1(error(1105, '\u001b]0;x\u0007\u202e\r\n')),
  'an error of record fault without end': with1(error(1366, 'Incorrect value')),
  'too many connections': with1([0xff], u16(1040), 'Too many connections'),
  'a result of 250 columns and nothing else': with1([250]),
  'a result of 65535 columns and nothing else': with1([0xfc, 0xff, 0xff]),
  'a result of 16 million columns': with1([0xfd, 0xff, 0xff, 0xff]),
  'a result of 2^63 columns': with1([0xfe, 255, 255, 255, 255, 255, 255, 255, 127]),
  'a result whose columns are cut': instead(packet(1, [1]), packet(2, text('def'))),
  'a column whose name is longer than it is': instead(
    packet(1, [1]),
    packet(2, [0xfe, 255, 255, 255, 255, 0, 0, 0, 0]),
  ),
  'a column of an unknown type': instead(
    packet(1, [1]),
    packet(2, Buffer.concat([column('x').subarray(0, -6), Buffer.alloc(6, 0xee)])),
    packet(3, eof),
    packet(4, [0, 0, 5], 'hello'),
    packet(5, eof),
  ),
  'a column named __proto__': instead(
    packet(1, [1]),
    packet(2, column('__proto__')),
    packet(3, eof),
    packet(4, [0, 0], text('x')),
    packet(5, eof),
  ),
  'a column named like code': instead(
    packet(1, [1]),
    packet(2, column("'+process.exit(1)+'\n*/")),
    packet(3, eof),
    packet(4, [0, 0], text('x')),
    packet(5, eof),
  ),
  'a row that is cut': instead(
    packet(1, [1]),
    packet(2, column('x')),
    packet(3, eof),
    packet(4, [0, 0, 200], 'abc'),
  ),
  'a row before its columns': instead(packet(1, [0, 0], text('x'))),
  'rows without end': (socket) =>
    endless(
      socket,
      Buffer.concat([packet(1, [1]), packet(2, column('x')), packet(3, eof)]),
      Buffer.concat(
        Array.from({ length: 256 }, (_, index) => packet(4 + index, [0, 0], text('x'.repeat(200)))),
      ),
    ),
  'columns without end': (socket) =>
    endless(
      socket,
      packet(1, [0xfe, 255, 255, 255, 255, 255, 0, 0, 0]),
      Buffer.concat(Array.from({ length: 256 }, (_, index) => packet(2 + index, column('x')))),
    ),
  'asks for one of our files': with1([0xfb], '/etc/passwd'),
  'asks for another plugin': with1([0xfe], 'no_such_plugin\0salt\0'),
  'asks for a plugin named __proto__': with1([0xfe], '__proto__\0salt\0'),
  'asks for a plugin named constructor': with1([0xfe], 'constructor\0salt\0'),
  'asks for a plugin without a name': with1([0xfe, 0]),
  'asks for the old password': with1([0xfe]),
  'asks for mysql_clear_password': with1([0xfe], 'mysql_clear_password\0'),
  'asks for sha256_password': with1([0xfe], 'sha256_password\0saltsaltsaltsaltsalt\0'),
  'asks for native again and again': then(
    ...Array<Buffer>(100).fill(packet(2, [0xfe], 'mysql_native_password\0saltsaltsaltsaltsalt\0')),
  ),
  'more authentication data without a plugin': with1([1], 'what'),
  'an RSA key that is none': (socket) =>
    void socket.write(
      Buffer.concat([
        packet(2, [0xfe], 'caching_sha2_password\0saltsaltsaltsaltsalt\0'),
        packet(4, [1, 4]),
        packet(6, [1], '-----BEGIN PUBLIC KEY-----\nnonsense\n'),
      ]),
    ),
  'caching_sha2 data out of order': (socket) =>
    void socket.write(
      Buffer.concat([
        packet(2, [0xfe], 'caching_sha2_password\0salt\0'),
        packet(4, [1, 9]),
        packet(5, [1, 3]),
      ]),
    ),
  'a second factor': with1([2], 'mysql_clear_password\0'),
  'a greeting of protocol 9': with1([9], '3.20\0'),
  'a greeting of protocol 255': with1([255]),
  'a greeting without salt': with1([0x0a], '8.0\0', [1, 0, 0, 0]),
  'a greeting with an endless version': with1([0x0a], 'x'.repeat(1_000_000)),
  'a greeting in the middle': instead(greeting(false)),
  'a greeting that offers TLS': instead(greeting(true)),
  'a greeting without any capability': with1([0x0a], '8.0.36\0', Buffer.alloc(40)),
  'a statement of 65535 parameters and nothing else': instead(
    packet(1, [0, 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0]),
  ),
  'a statement without parameters': instead(packet(1, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
  'a statement that is cut': instead(packet(1, [0, 1, 0])),
  PostgreSQL: instead(Buffer.from('N')),
}
