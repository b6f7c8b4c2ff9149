/** Names are looked up without the threads that everybody shares: a silent name server delays whoever asked it. */
import { createSocket } from 'node:dgram'
import t from 'tap'
import { forget, lookUp as lookUpAt } from '../../../src/destinations/resolver.ts'
import { until } from '../../support/until.ts'

const never = new AbortController().signal
const asked: string[] = []
let address = [127, 0, 0, 9]

/** Answers A of `ok…` with a TTL of an hour, of `brief…` with 0; is silent to `slow…`; knows nothing else. */
function answer(query: Buffer): Buffer | null {
  let at = 12
  const labels: string[] = []
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const name = labels.join('.')
  const isA = query.readUInt16BE(at + 1) === 1
  asked.push(name)
  if (name.startsWith('slow')) return null
  const isKnown = name.startsWith('ok') || name.startsWith('brief')
  const head = Buffer.from(query.subarray(0, at + 5))
  head.writeUInt16BE(isKnown ? 0x8180 : 0x8183, 2)
  head.writeUInt16BE(isKnown && isA ? 1 : 0, 6)
  head.fill(0, 8, 12)
  if (!isKnown || !isA) return head
  const ttl = name.startsWith('ok') ? [0, 0, 14, 16] : [0, 0, 0, 0]
  return Buffer.concat([head, Buffer.from([0xc0, 12, 0, 1, 0, 1, ...ttl, 0, 4, ...address])])
}

const server = createSocket('udp4')
server.on('message', (query, from) => {
  const reply = answer(query)
  if (reply !== null) server.send(reply, from.port, from.address)
})
await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve))
t.teardown(() => server.close())
const servers = [`127.0.0.1:${server.address().port}`]
const lookUp = (host: string, stop: AbortSignal) => lookUpAt(host, stop, servers)

t.test(
  'a name is kept for its time to live, and asked again after that or when it led nowhere',
  async (t) => {
    asked.length = 0
    t.strictSame(await lookUp('ok.test', never), ['127.0.0.9'])
    const questions = asked.length
    address = [127, 0, 0, 10]
    t.strictSame(await lookUp('ok.test', never), ['127.0.0.9'])
    t.equal(asked.length, questions, 'not asked again')
    forget('ok.test')
    t.strictSame(await lookUp('ok.test', never), ['127.0.0.10'])
    t.strictSame(await lookUp('brief.test', never), ['127.0.0.10'])
    address = [127, 0, 0, 11]
    t.strictSame(await lookUp('brief.test', never), ['127.0.0.11'], 'a TTL of 0 is not kept')
  },
)

t.test('a name that does not exist, and names of /etc/hosts', async (t) => {
  await t.rejects(lookUp('nothing.test', never), { code: 'ENOTFOUND' })
  t.ok((await lookUp('localhost', never)).includes('127.0.0.1'))
  t.ok((await lookUp('db.localhost', never)).includes('127.0.0.1'))
})

t.test('forty silent names keep nobody else from looking up, and end when they are aborted', async (t) => {
  const abort = new AbortController()
  asked.length = 0
  const slow = Array.from({ length: 40 }, (_, index) => lookUp(`slow${index}.test`, abort.signal))
  const ended = Promise.allSettled(slow)
  await until('all forty are under way', () => new Set(asked).size >= 40)
  let isOver = false
  void ended.then(() => {
    isOver = true
  })
  t.strictSame(await lookUp('ok-other.test', never), ['127.0.0.11'])
  t.notOk(isOver, 'the answer came while the others still waited')
  abort.abort(new Error('stop'))
  for (const result of await ended) t.match(result, { status: 'rejected', reason: { message: 'stop' } })
})
