/** An honest PostgreSQL server, as far as the driver goes: log-in, one table, inserts. And its ways to misbehave. */
import { endless, type Fault, type HonestSession } from './rogue-server.ts'

export function message(type: string, ...parts: (Buffer | string | number[])[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part as string)))
  const header = Buffer.alloc(5)
  header.write(type, 'latin1')
  header.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([header, body])
}
export const int16 = (value: number) => {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}
export const int32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}
const zeroed = (text: string) => `${text}\0`

export const ready = message('Z', 'I')
export const loggedIn = Buffer.concat([
  message('R', int32(0)),
  message('S', zeroed('server_version'), zeroed('18.0')),
  message('K', int32(1), int32(2)),
  ready,
])

const columns = [
  'name',
  'type',
  'category',
  'is_json',
  'is_not_null',
  'default_sql',
  'has_default',
  'is_generated',
]
const booleans = new Set(['is_json', 'is_not_null', 'has_default', 'is_generated'])
const rowDescription = message(
  'T',
  int16(columns.length),
  ...columns.map((name) =>
    Buffer.concat([
      Buffer.from(zeroed(name)),
      int32(0),
      int16(0),
      int32(booleans.has(name) ? 16 : 25),
      int16(-1),
      int32(-1),
      int16(0),
    ]),
  ),
)
const dataRow = message(
  'D',
  int16(columns.length),
  ...['v', 'text', 'S', 'f', 'f', null, 'f', 'f'].map((value) =>
    value === null ? int32(-1) : Buffer.concat([int32(value.length), Buffer.from(value)]),
  ),
)
const parsed = Buffer.concat([message('1'), message('2')])
const table = Buffer.concat([parsed, rowDescription, dataRow, message('C', zeroed('SELECT 1')), ready])
const stored = Buffer.concat([parsed, message('n'), message('C', zeroed('INSERT 0 1')), ready])
const done = Buffer.concat([message('C', zeroed('SET')), ready])

/** Steps: 0 log-in, 1 the session's settings, 2 the table, 3 the insert. */
export function honestPostgres(): HonestSession {
  let held = Buffer.alloc(0)
  let isStarted = false
  let text = ''
  return {
    greeting: null,
    startsTls: () => ({ reply: Buffer.from('S'), rest: nothingToSay }),
    answer(chunk) {
      held = Buffer.concat([held, chunk])
      const answers: Buffer[] = []
      for (;;) {
        const headerBytes = isStarted ? 1 : 0
        if (held.length < headerBytes + 4) return answers
        const end = headerBytes + held.readInt32BE(headerBytes)
        if (held.length < end) return answers
        const type = isStarted ? String.fromCharCode(held[0]!) : 'startup'
        text += held.toString('latin1', 0, end)
        held = held.subarray(end)
        isStarted = true
        if (type !== 'startup' && type !== 'Q' && type !== 'S') continue
        answers.push(
          type === 'startup'
            ? loggedIn
            : type === 'Q'
              ? done
              : text.includes('pg_attribute')
                ? table
                : stored,
        )
        text = ''
      }
    },
  }
}

const nothingToSay = Buffer.alloc(0)
const instead =
  (...parts: Buffer[]): Fault =>
  (socket) =>
    void socket.write(Buffer.concat(parts))
const then =
  (...parts: Buffer[]): Fault =>
  (socket, honest) =>
    void socket.write(Buffer.concat([...parts, honest]))
const raw = (hex: string) => Buffer.from(hex, 'hex')
const field = (letter: string, text: string) => `${letter}${text}\0`
const report = (type: 'E' | 'N', ...fields: string[]) => message(type, ...fields, '\0')
const greeting = (bytes: number) => {
  const payload = Buffer.concat([raw('0a'), Buffer.from('8.0.36-cluster\0'), Buffer.alloc(bytes, 7)])
  return Buffer.concat([Buffer.from([bytes, 0, 0, 0]), payload.subarray(0, bytes)])
}

/** Beside the common ones. Those that ended or hung the daemon before there was a gate come first. */
export const postgresFaults: Record<string, Fault> = {
  'asks for authentication 99': instead(message('R', int32(99))),
  'a row of -1 values': instead(message('D', int16(-1))),
  'a description of -1 columns': instead(message('T', int16(-1))),
  '-1 parameters': instead(message('t', int16(-1))),
  'a row that is cut': instead(message('D', int16(3), int32(10), 'abc')),
  'a description that is cut': instead(message('T', int16(2), 'name\0')),
  'COPY OUT of -1 columns': instead(message('H', [0], int16(-1))),
  'COPY IN': instead(message('G', [0], int16(1), int16(0))),
  'COPY both': instead(message('W', [0], int16(1), int16(0))),
  'COPY data': instead(message('d', 'x'.repeat(100))),
  'key data that is cut': instead(message('K', int16(1))),
  'a notification that is cut': instead(message('A', int16(1))),
  'an error without anything': instead(raw('4500000004')),
  'an error without its end': instead(message('E', 'SERROR')),
  'a notice without its end': instead(message('N', 'SNOTICE')),
  'a length of 0': instead(raw('5a00000000')),
  'a length of 3': instead(raw('5a00000003')),
  'a length of -1': instead(raw('5affffffff')),
  'a length of 2 GiB': instead(raw('5a7fffffff')),
  'a length of 16 MiB and silence': instead(raw('4401000000')),
  'a length of 16 MiB and data': (socket) => endless(socket, raw('4401000000'), Buffer.alloc(65_536)),
  'a greeting of MySQL, 68 bytes': instead(greeting(68)),
  'a greeting of MySQL, 78 bytes (N)': instead(greeting(78)),
  'a greeting of MySQL, 82 bytes (R)': instead(greeting(82)),
  'a greeting of MySQL, 83 bytes (S)': instead(greeting(83)),
  'a greeting of MySQL, 84 bytes (T)': instead(greeting(84)),
  'a greeting of MySQL, 116 bytes (t)': instead(greeting(116)),
  'an error of MySQL': instead(raw('170000000a'), Buffer.from('too many connections')),
  'an unknown type': instead(message('?', 'what')),
  'type 0': instead(raw('0000000004')),
  'a status that is none': instead(message('Z', '?')),
  'a status of no letter': instead(message('Z')),
  'a status of two letters': instead(message('Z', 'II')),
  'ready before anything': then(ready),
  'ready a thousand times': then(...Array<Buffer>(1000).fill(ready)),
  'rows before their description': then(dataRow),
  'a description nobody asked for': then(rowDescription),
  'parse complete a thousand times': then(...Array<Buffer>(1000).fill(message('1'))),
  'command complete first': then(message('C', 'INSERT 0 1\0')),
  'command complete without a text': instead(message('C', '\0'), ready),
  'command complete without its end': instead(message('C', 'INSERT'), ready),
  'command complete of a megabyte': instead(message('C', `${'A'.repeat(1_000_000)}\0`), ready),
  'portal suspended': instead(message('s'), ready),
  'an empty query': instead(message('I'), ready),
  'no data and no end': instead(message('n')),
  'log-in again': then(message('R', int32(0))),
  'asks for SCRAM without a mechanism': instead(message('R', int32(10), '\0')),
  'asks for SCRAM without an end': instead(message('R', int32(10), 'SCRAM-SHA-256')),
  'asks for SCRAM of another kind': instead(message('R', int32(10), 'SCRAM-SHA-512\0\0')),
  'asks for SCRAM, then waves through': instead(message('R', int32(10), 'SCRAM-SHA-256\0\0'), loggedIn),
  'goes on with SCRAM that never began': instead(message('R', int32(11), 'r=x,s=eA==,i=4096')),
  'ends SCRAM that never began': instead(message('R', int32(12), 'v=eA==')),
  'SCRAM with a thousand million rounds': instead(
    message('R', int32(10), 'SCRAM-SHA-256\0\0'),
    message('R', int32(11), 'r=x,s=eA==,i=1000000000'),
  ),
  'asks for GSSAPI': instead(message('R', int32(7))),
  'asks for SSPI': instead(message('R', int32(9))),
  'asks for MD5 without salt': instead(message('R', int32(5))),
  'an error without a code': instead(report('E', field('M', 'no'))),
  'an error of 10 MB': instead(
    report('E', field('S', 'ERROR'), field('C', '22000'), field('M', 'x'.repeat(10_000_000))),
    ready,
  ),
  'an error with a column of 1 MB': instead(
    report('E', field('S', 'ERROR'), field('C', '23502'), field('M', 'x'), field('c', 'y'.repeat(1_000_000))),
    ready,
  ),
  'an error of escape sequences': instead(
    report('E', field('S', 'ERROR'), field('C', '22000'), field('M', '\u001b]0;x\u0007\u202e\r\n')),
    ready,
  ),
  'an error with a code that is none': instead(
    report('E', field('S', 'ERROR'), field('C', '\u001b[31m'), field('M', 'x')),
    ready,
  ),
  'an error of a million fields': instead(report('E', field('M', 'x').repeat(1_000_000)), ready),
  'notices without end': (socket, honest) =>
    endless(socket, honest, report('N', field('S', 'NOTICE'), field('M', 'x'.repeat(1000)))),
  'rows without end': (socket, honest) =>
    endless(
      socket,
      Buffer.concat([parsed, rowDescription]),
      Buffer.concat(Array(500).fill(honest.length > 0 ? dataRow : nothingToSay)),
    ),
  'a protocol negotiation': instead(message('v', int32(0), int32(1), '_pq_.x\0')),
  'parameters without end': (socket) => endless(socket, message('R', int32(0)), message('S', 'a\0', 'b\0')),
  'a table without columns': instead(parsed, message('T', int16(0)), message('C', 'SELECT 0\0'), ready),
  'a row with more values than columns': instead(
    parsed,
    message('T', int16(0)),
    message('D', int16(1), int32(-1)),
    message('C', 'SELECT 1\0'),
    ready,
  ),
}
