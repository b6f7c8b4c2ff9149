/** An honest HTTP/1.1 server, as far as an endpoint goes: every request is answered 200. And its ways to misbehave. */
import { gzipSync } from 'node:zlib'
import { endless, type Fault, type HonestSession } from './rogue-server.ts'

export interface HttpRequest {
  method: string
  /** With its query. */
  path: string
}

export function response(
  status: string,
  headers: readonly string[] = [],
  body: string | Buffer = '',
): Buffer {
  const length = `content-length: ${Buffer.byteLength(body)}`
  return Buffer.concat([head(status, [...headers, length]), Buffer.from(body)])
}

/** Without a Content-Length. */
export function head(status: string, headers: readonly string[] = []): Buffer {
  return Buffer.from(`${[`HTTP/1.1 ${status}`, ...headers].join('\r\n')}\r\n\r\n`)
}

const stored = response('200 OK', ['content-type: text/plain'], 'ok')

/** Steps: one for each request. */
export const honestHttp = (): HonestSession => httpSession(() => stored)

/** `answerTo` is asked once the whole body is there. */
export function httpSession(answerTo: (request: HttpRequest) => Buffer): HonestSession {
  let headers = ''
  let bodyBytes = 0
  return {
    greeting: null,
    startsTls: (rest) => ({ reply: Buffer.alloc(0), rest }),
    answer(chunk) {
      const answers: Buffer[] = []
      let at = 0
      while (at < chunk.length || isHeaderWhole()) {
        if (isHeaderWhole()) {
          const taken = Math.min(bodyBytes, chunk.length - at)
          bodyBytes -= taken
          at += taken
          if (bodyBytes > 0) break
          const [, method = '', path = ''] = /^(\S+) (\S+)/.exec(headers) ?? []
          answers.push(answerTo({ method, path }))
          headers = ''
          continue
        }
        const end = chunk.indexOf('\n', at)
        const next = end === -1 ? chunk.length : end + 1
        headers += chunk.toString('latin1', at, next)
        at = next
        if (isHeaderWhole()) bodyBytes = Number(/^content-length: *(\d+)/im.exec(headers)?.[1] ?? 0)
      }
      return answers
    },
  }

  function isHeaderWhole(): boolean {
    return headers.endsWith('\r\n\r\n')
  }
}

const instead =
  (...parts: (Buffer | string)[]): Fault =>
  (socket) =>
    void socket.write(Buffer.concat(parts.map((part) => Buffer.from(part as string))))
const closing =
  (...parts: (Buffer | string)[]): Fault =>
  (socket) =>
    void socket.end(Buffer.concat(parts.map((part) => Buffer.from(part as string))))
const pouring =
  (first: Buffer | string, again: string): Fault =>
  (socket) =>
    endless(socket, Buffer.from(first as string), Buffer.from(again.repeat(Math.ceil(65_536 / again.length))))

const chunked = head('200 OK', ['transfer-encoding: chunked'])
const failedChunked = head('500 No', ['transfer-encoding: chunked'])
const letters = 'A'.repeat(1000)

/** The part of a response that is sent before the server stops, by where in the response that is. */
const beginnings: Record<string, string | Buffer> = {
  'in the protocol': 'HTT',
  'in the status': 'HTTP/1.1 2',
  'after the status': 'HTTP/1.1 200',
  'after the status line': 'HTTP/1.1 200 OK\r\n',
  'in the name of a header': 'HTTP/1.1 200 OK\r\ncontent-',
  'in the value of a header': 'HTTP/1.1 200 OK\r\ncontent-type: te',
  'before the end of the headers': 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n',
  'after a 100': head('100 Continue'),
  'after a 103': head('103 Early Hints', ['link: </a>']),
  'in the body': Buffer.concat([head('200 OK', ['content-length: 100']), Buffer.from('begun')]),
  'in the body of an error': Buffer.concat([head('500 No', ['content-length: 100']), Buffer.from('begun')]),
  'in the size of a chunk': Buffer.concat([chunked, Buffer.from('1')]),
  'in a chunk': Buffer.concat([chunked, Buffer.from('10\r\nbegun')]),
  'before the last chunk': Buffer.concat([chunked, Buffer.from('2\r\nok\r\n')]),
  'in the trailers': Buffer.concat([chunked, Buffer.from('0\r\ntrail')]),
}

const cuts = Object.fromEntries(
  Object.entries(beginnings).flatMap(([place, begun]): [string, Fault][] => [
    [`is cut ${place}`, closing(begun)],
    [`is silent ${place}`, instead(begun)],
  ]),
)

const floods: Record<string, Fault> = {
  'a protocol without end': pouring('HTTP/1.', '1'),
  'a status without end': pouring('HTTP/1.1 ', '2'),
  'a reason without end': pouring('HTTP/1.1 200 ', letters),
  'a name of a header without end': pouring('HTTP/1.1 200 OK\r\n', letters),
  'a value of a header without end': pouring('HTTP/1.1 200 OK\r\nx: ', letters),
  'headers without end': pouring('HTTP/1.1 200 OK\r\n', 'x-header: value\r\n'),
  'tiny headers without end': pouring('HTTP/1.1 200 OK\r\n', 'a:\r\n'),
  'blank lines without end': pouring('', '\r\n'),
  'a body without end': pouring(head('200 OK', ['connection: close']), letters),
  'a body of an error without end': pouring(head('500 No', ['connection: close']), letters),
  'a body as long as can be said': pouring(head('200 OK', ['content-length: 9007199254740991']), letters),
  'chunks without end': pouring(chunked, '3e8\r\n'.concat(letters, '\r\n')),
  'chunks of an error without end': pouring(failedChunked, '3e8\r\n'.concat(letters, '\r\n')),
  'tiny chunks without end': pouring(failedChunked, '1\r\nA\r\n'),
  'the size of a chunk without end': pouring(chunked, '0'),
  'an extension of a chunk without end': pouring(chunked.toString().concat('1;'), letters),
  'extensions of chunks without end': pouring(chunked, `1;${letters}\r\nA\r\n`),
  'trailers without end': pouring(chunked.toString().concat('0\r\n'), 'x-trailer: value\r\n'),
  '100 without end': pouring('', head('100 Continue').toString()),
  '102 without end': pouring('', head('102 Processing').toString()),
  '103 without end': pouring('', head('103 Early Hints', ['link: </a>; rel=preload']).toString()),
  'answers without end': pouring('', response('200 OK', [], 'ok').toString()),
}

const lengths: Record<string, Fault> = {
  'a length that is too small': instead(head('200 OK', ['content-length: 1']), 'okay'),
  'a length that is too large, and closed': closing(head('200 OK', ['content-length: 99']), 'ok'),
  'a length below zero': instead(head('200 OK', ['content-length: -1']), 'ok'),
  'a length over 64 bits': instead(head('200 OK', ['content-length: 99999999999999999999']), 'ok'),
  'a length of letters': instead(head('200 OK', ['content-length: two']), 'ok'),
  'a length in hexadecimal': instead(head('200 OK', ['content-length: 0x2']), 'ok'),
  'a length of nothing': instead(head('200 OK', ['content-length:']), 'ok'),
  'two lengths': instead(head('200 OK', ['content-length: 2', 'content-length: 3']), 'ok'),
  'a length and chunks': instead(head('200 OK', ['content-length: 2', 'transfer-encoding: chunked']), 'ok'),
  'an encoding that is none': instead(head('200 OK', ['transfer-encoding: xchunked']), 'ok'),
  'a chunk whose size is no number': instead(chunked, 'zz\r\nok\r\n0\r\n\r\n'),
  'a chunk of a size over 64 bits': instead(chunked, 'fffffffffffffffff\r\nok'),
  'a chunk of a size below zero': instead(chunked, '-1\r\nok\r\n0\r\n\r\n'),
  'a chunk that is longer than it says': instead(chunked, '1\r\nokay\r\n0\r\n\r\n'),
  'a chunk without its line break': instead(chunked, '2\r\nok0\r\n\r\n'),
}

const statuses = Object.fromEntries(
  ['000', '099', '101 Switching Protocols', '199', '204 No Content', '205', '206', '299', '304 Not Modified']
    .concat(['600', '666 Beast', '999', '1000', '-1', '20', '2x0', '', '200', '200 \u001b[31m', '٢٠٠'])
    .map((status): [string, Fault] => [`the status "${status}"`, instead(response(status, [], 'ok'))]),
)

const protocols: Record<string, Fault> = {
  'HTTP/0.9': closing('<h1>It works!</h1>'),
  'HTTP/1.0 without a length': closing('HTTP/1.0 200 OK\r\n\r\nok'),
  'HTTP/2': instead(Buffer.from('000000040000000000', 'hex')),
  'HTTP/2.0 in words': instead('HTTP/2.0 200 OK\r\n\r\n'),
  'HTTP/9.9': instead('HTTP/9.9 200 OK\r\n\r\n'),
  'a request': instead('GET / HTTP/1.1\r\nhost: x\r\n\r\n'),
  RTSP: instead('RTSP/1.0 200 OK\r\n\r\n'),
  'an upgrade nobody asked for': instead(
    head('101 Switching Protocols', ['connection: upgrade', 'upgrade: websocket']),
    letters,
  ),
  'two answers': (socket, honest) => void socket.write(Buffer.concat([honest, honest])),
  'the answer a byte at a time': (socket, honest) => {
    for (const byte of honest) socket.write(Buffer.from([byte]))
  },
  'an answer that says it closes, and does not': instead(response('200 OK', ['connection: close'], 'ok')),
  'an idle time of zero': instead(response('200 OK', ['keep-alive: timeout=0'], 'ok')),
  'an idle time that is none': instead(response('200 OK', ['keep-alive: timeout=-1e99, max=x'], 'ok')),
  'line feeds only': instead('HTTP/1.1 200 OK\ncontent-length: 2\n\nok'),
  'a header without a colon': instead('HTTP/1.1 200 OK\r\nnonsense\r\n\r\n'),
  'a header without a name': instead('HTTP/1.1 200 OK\r\n: value\r\n\r\n'),
  'a header over two lines': instead('HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n'),
  'a header with a NUL': instead('HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n'),
  'the header __proto__': instead(response('500 No', ['__proto__: x', 'constructor: y', 'toString: z'])),
}

const errors: Record<string, Fault> = {
  'an error of 10 MB': instead(response('400 No', [], 'x'.repeat(10_000_000))),
  'an error of tags': instead(response('400 No', [], '<'.repeat(4000))),
  'an error of scripts': instead(response('400 No', [], '<script>'.repeat(1000))),
  'an error of spaces': instead(response('400 No', [], ' '.repeat(100_000))),
  'an error of control and bidi characters': instead(
    response('400 No', [], 'a\u001b]0;x\u0007\u202e\u2066\u2028\r\n\0b\u0085\u200f'),
  ),
  'an error that is no UTF-8': instead(
    response('400 No', [], Buffer.from('c328fffeed a080'.replace(' ', ''), 'hex')),
  ),
  'a reason of control characters': instead('HTTP/1.1 400 \u001b[2J\u0007\r\ncontent-length: 0\r\n\r\n'),
  'a header of 15 KB': instead(response('400 No', [`x: ${'y'.repeat(15_000)}`])),
  'a header of 100 KB': instead(response('400 No', [`x: ${'y'.repeat(100_000)}`])),
  'ten thousand headers': instead(response('400 No', Array<string>(10_000).fill('x: y'))),
  'a bomb of gzip': instead(
    response('400 No', ['content-encoding: gzip'], gzipSync(Buffer.alloc(50_000_000))),
  ),
  'a bomb of gzip that says it is stored': instead(
    response('200 OK', ['content-encoding: gzip'], gzipSync(Buffer.alloc(50_000_000))),
  ),
  'gzip that is none': instead(response('400 No', ['content-encoding: gzip'], 'no')),
  'an encoding of a hundred layers': instead(
    response('400 No', [`content-encoding: ${Array(100).fill('br').join()}`], 'x'),
  ),
  'a pause of 1e400 s': instead(response('503 Later', [`retry-after: ${'9'.repeat(400)}`])),
  'a pause of three hundred years': instead(response('503 Later', ['retry-after: 9999999999'])),
  'a pause below zero': instead(response('503 Later', ['retry-after: -1'])),
  'a pause until the end of time': instead(
    response('503 Later', [
      'retry-after: Sat, 13 Sep 275760 00:00:00 GMT',
      'date: Thu, 01 Jan -270000 00:00:00 GMT',
    ]),
  ),
  'the date of the end of time': instead(response('503 Later', ['date: Sat, 13 Sep 275760 00:00:00 GMT'])),
  'a date that is none': instead(response('503 Later', ['date: yesterday', 'date: tomorrow'])),
}

/** Beside the common ones. `elsewhere`: a URL that nobody may be led to. `secrets`: what must not come back. */
export function httpFaults({
  elsewhere,
  secrets,
}: {
  elsewhere: string
  secrets: readonly string[]
}): Record<string, Fault> {
  const redirects = ['300', '301', '302', '303', '305', '307', '308'].map((status): [string, Fault] => [
    `a redirect by ${status}`,
    instead(response(`${status} Over there`, [`location: ${elsewhere}`])),
  ])
  const echo = secrets.join(' and ')
  return {
    ...cuts,
    ...floods,
    ...lengths,
    ...statuses,
    ...protocols,
    ...errors,
    ...Object.fromEntries(redirects),
    'a redirect to nowhere': instead(response('302 There')),
    'a redirect to a file': instead(response('302 There', ['location: file:///etc/passwd'])),
    'a redirect of 10 KB': instead(response('302 There', [`location: ${elsewhere}/${'x'.repeat(10_000)}`])),
    'a redirect with control characters': instead(
      response('302 There', ['location: http://x/\u001b[31m\u0085']),
    ),
    'a redirect to the secrets': instead(
      response('302 There', [`location: http://${encodeURI(secrets[0] ?? '')}/${secrets.at(-1)}`]),
    ),
    'the secrets': instead(response('400 No', [], echo)),
    'the secrets between tags': instead(response('400 No', [], `<p>${secrets.join('</p><p>')}</p>`)),
    'the secrets in the reason': instead(`HTTP/1.1 400 ${echo}\r\ncontent-length: 0\r\n\r\n`),
    'the request': (socket, _, heard) => void socket.write(response('400 No', [], heard.slice(-3000))),
    ...Object.fromEntries(
      secrets.map((secret, at): [string, Fault] => [
        `secret ${at} where the reading ends`,
        instead(response('400 No', [], `${'<p>'.repeat(1362)}${secret}${secret}`)),
      ]),
    ),
  }
}

/** For a client that begins with TLS: said in the place of the server's part of the handshake. */
export const handshakeFaults: Record<string, Fault> = {
  'closes at once': (socket) => void socket.end(),
  'resets the connection': (socket) => void socket.resetAndDestroy(),
  'is silent': () => {},
  'speaks HTTP': closing(response('400 Bad Request', [], 'The plain HTTP request was sent to HTTPS port')),
  'an alert': instead(Buffer.from('15030300020228', 'hex')),
  'an alert that is none': instead(Buffer.from('1503030002ffff', 'hex')),
  'a record of no bytes': instead(Buffer.from('1603030000', 'hex')),
  'a record that is too long': instead(Buffer.from('160303ffff', 'hex'), Buffer.alloc(65_535)),
  'a record of SSL 2': instead(Buffer.from('802e0100020015', 'hex')),
  'a version that is none': instead(Buffer.from('16099900040e000000', 'hex')),
  'the end of the handshake first': instead(Buffer.from('16030300040e000000', 'hex')),
  'a greeting that is cut': closing(Buffer.from('160303004002', 'hex')),
  'a greeting of a cipher that is none': instead(
    Buffer.from('160303002c020000280303', 'hex'),
    Buffer.alloc(32, 7),
    Buffer.from('00ffff000000', 'hex'),
  ),
  'application data first': instead(Buffer.from('1703030005', 'hex'), 'hello'),
  'what the client said': (socket, _, heard) => void socket.write(Buffer.from(heard, 'latin1')),
  'zeros without end': (socket) => endless(socket, Buffer.alloc(0), Buffer.alloc(65_536)),
  'a handshake without end': (socket) =>
    endless(socket, Buffer.from('160303400002ffffff', 'hex'), Buffer.alloc(65_536, 0x16)),
}
