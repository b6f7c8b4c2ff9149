/** An honest nats-server with one stream, as far as the driver goes: greeting, log-in, publications. And its ways to misbehave. */
import { endless, type Fault, type HonestSession } from './rogue-server.ts'

const line = (text: string) => Buffer.from(`${text}\r\n`)

function greeting({ tls = false, connectUrls = [] as string[] } = {}): Buffer {
  const info = {
    server_id: 'NA',
    version: '2.9.10',
    headers: true,
    max_payload: 1_048_576,
    jetstream: true,
    nonce: 'abcdefghijk',
    ...(tls ? { tls_required: true } : {}),
    ...(connectUrls.length > 0 ? { connect_urls: connectUrls } : {}),
  }
  return line(`INFO ${JSON.stringify(info)}`)
}

function acknowledgement(replyTo: string, seq: number): Buffer {
  const payload = JSON.stringify({ stream: 'EVENTS', seq })
  return line(`MSG ${replyTo} 1 ${payload.length}\r\n${payload}`)
}

/** Steps: 0 greeting, 1 log-in, then one for each publication; over TLS the greeting is none. */
export function honestNats(options: { tls?: boolean; connectUrls?: string[] } = {}): HonestSession {
  let held: Buffer = Buffer.alloc(0)
  let seq = 0
  return {
    greeting: greeting(options),
    startsTls: (rest) => ({ reply: Buffer.alloc(0), rest }),
    answer(chunk) {
      held = Buffer.concat([held, chunk])
      const answers: Buffer[] = []
      for (;;) {
        const end = held.indexOf('\r\n')
        if (end === -1) return answers
        const text = held.toString('latin1', 0, end)
        const published = /^(H?)PUB (\S+) (\S+) .*?(\d+)$/.exec(text)
        const size = published === null ? 0 : Number(published[4]) + 2
        if (held.length < end + 2 + size) return answers
        held = held.subarray(end + 2 + size)
        seq += 1
        if (published !== null) answers.push(acknowledgement(published[3] ?? '', seq))
        else if (text === 'PING') answers.push(line('PONG'))
      }
    },
  }
}

const instead =
  (...parts: (Buffer | string)[]): Fault =>
  (socket) =>
    void socket.write(Buffer.concat(parts.map((part) => Buffer.from(part as string))))

const info = (members: object) =>
  instead(`INFO ${JSON.stringify({ headers: true, max_payload: 1000, ...members })}\r\n`)

/** Where the publication's answer goes to: the last that the client has named. */
const inbox = (heard: string) => /.*HPUB \S+ (\S+) /s.exec(heard)?.[1] ?? '_INBOX.x.1'
const answering =
  (payload: string | Buffer, length: number | string = Buffer.byteLength(payload)): Fault =>
  (socket, _, heard) =>
    void socket.write(
      Buffer.concat([
        Buffer.from(`MSG ${inbox(heard)} 1 ${length}\r\n`),
        Buffer.from(payload),
        Buffer.from('\r\n'),
      ]),
    )

/** Beside the common ones. `elsewhere`: host and port where nobody may be led to. `secrets`: what must not come back. */
export function natsFaults({
  elsewhere,
  secrets,
}: {
  elsewhere: string
  secrets: readonly string[]
}): Record<string, Fault> {
  const echo = secrets.join(' and ')
  const errors = ['Authorization Violation', 'Permissions Violation for Publish to "x"', 'Stale Connection']
    .concat(['Maximum Payload Violation', 'Unknown Protocol Operation', 'maximum connections exceeded', ''])
    .map((text): [string, Fault] => [`-ERR ${text}`, instead(`-ERR '${text}'\r\n`)])
  return {
    ...Object.fromEntries(errors),
    'an error of the secrets': instead(`-ERR '${echo}'\r\n`),
    'an error of control characters': instead(`-ERR '\u001b[31m\u202e\u0007'\r\n`),
    'an error of 4 KB': instead(`-ERR '${'x'.repeat(4000)}'\r\n`),
    'an error without end': (socket) => endless(socket, Buffer.from("-ERR '"), Buffer.alloc(65_536, 'x')),
    'a greeting that names other servers': info({ connect_urls: [elsewhere, elsewhere], ip: elsewhere }),
    'a greeting that says it leaves': info({ ldm: true }),
    'a greeting of 60 KB': info({ x: 'y'.repeat(60_000) }),
    'a greeting of 100 KB': info({ x: 'y'.repeat(100_000) }),
    'a greeting without end': (socket) =>
      endless(socket, Buffer.from('INFO {"x":"'), Buffer.alloc(65_536, 'y')),
    'a greeting of many layers': instead(`INFO ${'['.repeat(30_000)}\r\n`),
    'a greeting that is a list': instead('INFO []\r\n'),
    'a greeting that is null': instead('INFO null\r\n'),
    'a greeting that is cut': instead('INFO {"max_payload":\r\n'),
    'messages of no bytes': info({ max_payload: 0 }),
    'messages of less than none': info({ max_payload: -1 }),
    'messages of 1e308 bytes': info({ max_payload: 1e308 }),
    'messages of a text': info({ max_payload: '1000' }),
    'a nonce that is none': info({ nonce: { a: 1 } }),
    'a nonce of control characters': info({ nonce: '\r\nPUB x 0\r\n\r\n' }),
    'the greeting of __proto__': instead('INFO {"__proto__":{"headers":true},"max_payload":1000}\r\n'),
    'PING without end': (socket, honest) => endless(socket, honest, Buffer.from('PING\r\n'.repeat(10_000))),
    'PING and never reads': (socket, honest) => {
      socket.pause()
      endless(socket, honest, Buffer.from('PING\r\n'.repeat(10_000)))
    },
    'PONG without end': (socket, honest) => endless(socket, honest, Buffer.from('PONG\r\n'.repeat(10_000))),
    '+OK without end': (socket, honest) => endless(socket, honest, Buffer.from('+OK\r\n'.repeat(10_000))),
    'INFO without end': (socket, honest) =>
      endless(socket, honest, Buffer.from('INFO {"max_payload":1}\r\n'.repeat(3_000))),
    'answers to nobody without end': (socket, honest) =>
      endless(socket, honest, Buffer.from('MSG _INBOX.x.1 1 2\r\nok\r\n'.repeat(3_000))),
    'lower case': instead('pong\r\n'),
    'line feeds alone': instead('PONG\n+OK\n'),
    'a line without end': (socket) => endless(socket, Buffer.from('MSG '), Buffer.alloc(65_536, 'x')),
    'a message without sizes': instead('MSG x 1\r\n'),
    'a message of a negative size': instead('MSG x 1 -1\r\n'),
    'a message of 1 GB': instead('MSG x 1 999999999\r\n'),
    'a message of 10^30 bytes': instead(`MSG x 1 1${'0'.repeat(30)}\r\n`),
    'a message of 9 words': instead('MSG a b c d e f g h 2\r\nok\r\n'),
    'a message with more headers than bytes': instead('HMSG x 1 10 2\r\nok\r\n'),
    'a message that is longer than it says': instead('MSG x 1 1\r\nokay\r\n'),
    'headers that are none': (socket, _, heard) =>
      void socket.write(`HMSG ${inbox(heard)} 1 4 6\r\n\0\0\0\0ok\r\n`),
    'nobody listens': (socket, _, heard) =>
      void socket.write(`HMSG ${inbox(heard)} 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n`),
    'an answer that is no JSON': answering('thank you'),
    'an answer of nothing': answering(''),
    'an answer of null': answering('null'),
    'an answer of a list': answering('[1]'),
    'an answer of a text': answering('"stored"'),
    'an answer of no UTF-8': answering(Buffer.from('fffe', 'hex')),
    'an answer of many layers': answering('['.repeat(60_000)),
    'an answer of 60 KB': answering(`{"stream":"${'x'.repeat(60_000)}"}`),
    'an answer of 100 KB': answering(`{"stream":"${'x'.repeat(100_000)}"}`),
    'an answer whose place is a text': answering('{"stream":"EVENTS","seq":"1"}'),
    'an answer whose stream is a list': answering('{"stream":["EVENTS"],"seq":1}'),
    'an error that is a text': answering('{"error":"no"}'),
    'an error that is null': answering('{"error":null,"stream":"EVENTS"}'),
    'an error of wrong members': answering('{"error":{"code":"x","err_code":1e400,"description":{"a":1}}}'),
    'an answer of the secrets': answering(JSON.stringify({ error: { err_code: 1, description: echo } })),
    'a full stream': answering(
      '{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}',
    ),
    'the same answer twice': (socket, honest) => void socket.write(Buffer.concat([honest, honest])),
    'the answer a byte at a time': (socket, honest) => {
      for (const byte of honest) socket.write(Buffer.from([byte]))
    },
    'what the client said': (socket, _, heard) =>
      void socket.write(Buffer.from(heard.slice(-3000), 'latin1')),
    'what the client said, as an error': (socket, _, heard) =>
      void socket.write(`-ERR '${heard.slice(-3000).replace(/[\r\n]+/g, ' ')}'\r\n`),
  }
}
