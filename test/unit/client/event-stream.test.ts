/** Server-Sent Events, read piece by piece. */
import t from 'tap'
import { EventStreamError, EventStreamParser } from '../../../src/apps/client/event-stream.ts'

const bytes = (text: string) => Buffer.from(text)

function parsed(pieces: readonly Uint8Array[]) {
  const parser = new EventStreamParser()
  const events = pieces.flatMap((piece) => parser.push(piece))
  return { events, lastEventId: parser.lastEventId }
}

const stream = [
  'retry: 2000\nid: 7\n\n',
  ': nothing to say\n\n',
  'event: record\r\nid: 8.0\r\ndata: {"n":12345678901234567890,"x":1.10,"s":"é€😀"}\r\n\r\n',
  'data:first\rdata: second\rdata\r\r',
  'event: end\ndata: {"reason":"shutdown"}\n\n',
].join('')
const expected = {
  events: [
    { name: 'record', data: '{"n":12345678901234567890,"x":1.10,"s":"é€😀"}' },
    { name: 'message', data: 'first\nsecond\n' },
    { name: 'end', data: '{"reason":"shutdown"}' },
  ],
  lastEventId: '8.0',
}

t.test('line ends of every kind, comments, data of several lines, an id that stays', async (t) => {
  t.strictSame(parsed([bytes(stream)]), expected)
})

t.test('pieces may end anywhere, in the middle of a character and of a line end too', async (t) => {
  const all = bytes(stream)
  t.strictSame(parsed([...all].map((byte) => Buffer.of(byte))), expected, 'byte by byte')
  for (let at = 1; at < all.length; at += 1)
    t.strictSame(parsed([all.subarray(0, at), all.subarray(at)]), expected, `cut at ${at}`)
})

t.test('an id alone is no event, and what is not ended is none either', async (t) => {
  t.strictSame(parsed([bytes('id: 3\n\nid: 4.1\ndata: {}\n')]), { events: [], lastEventId: '4.1' })
  t.equal(parsed([bytes('id: 3\nid: \u0000\nid: a b\n\n')]).lastEventId, '3', 'no header could carry these')
})

t.test('a line or an event that grows without an end is an error, not memory', async (t) => {
  const most = 100
  const line = new EventStreamParser(most)
  line.push(bytes('data: '.padEnd(most, 'x')))
  t.throws(() => line.push(bytes('x')), EventStreamError)
  const event = new EventStreamParser(most)
  t.throws(() => {
    for (let n = 0; n < most; n += 1) event.push(bytes('data: xxxxxxxxxx\n'))
  }, EventStreamError)
  const fits = new EventStreamParser(most)
  for (let n = 0; n < 10; n += 1) t.equal(fits.push(bytes(`data: ${'x'.repeat(90)}\n\n`)).length, 1)
})
