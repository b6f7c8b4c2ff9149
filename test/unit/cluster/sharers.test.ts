/** Which nodes share the pipes while some of them do not reach the buffer. */
import t from 'tap'
import { sharersOf } from '../../../src/cluster/sharers.ts'
import type { BufferContact } from '../../../src/log/buffer.ts'
import { ContactHistory, settlesForMs } from '../../../src/log/contact.ts'
import type { LiveWorker } from '../../../src/metadata/cluster-store.ts'

const everyMs = 500

/** A node asks twice a second; `reaches` says of each question whether it is answered. The row is of the last renewal, each second. */
function rowAt(nowMs: number, nodeId: string, reaches: (atMs: number) => boolean): LiveWorker {
  const history = new ContactHistory(0)
  let reported: LiveWorker['buffer'] = null
  for (let atMs = everyMs; atMs <= nowMs; atMs += everyMs) {
    if (reaches(atMs)) history.answered(atMs)
    else history.failed(atMs)
    if (atMs % 1_000 === 0) reported = timesOf(history.at(atMs), atMs)
  }
  return { leaseId: nodeId, nodeId, isDraining: false, buffer: reported }
}

function timesOf({ answeredAgoMs, answeringForMs, isLost }: BufferContact, atMs: number) {
  return { fromMs: atMs - answeredAgoMs - answeringForMs, untilMs: atMs - answeredAgoMs, isLost }
}

/** The sharers of each second. */
function sharersOfEach(seconds: number, nodes: Record<string, (atMs: number) => boolean>): string[] {
  return Array.from({ length: seconds }, (_, second) =>
    sharersOf(
      Object.entries(nodes).map(([nodeId, reaches]) => rowAt((second + 1) * 1_000, nodeId, reaches)),
    ).join(''),
  )
}

const always = () => true
const except = (fromMs: number, toMs: number) => (atMs: number) => atMs < fromMs || atMs >= toMs

t.test('a node that is cut off has no share within 5 s, and none until it reaches the buffer again', (t) => {
  const each = sharersOfEach(50, { a: except(10_000, 30_000), b: always })
  t.equal(each.indexOf('b'), 12, 'three seconds after the last answer, in the report of that second')
  t.ok(each.slice(14, 38).every((sharers) => sharers === 'b'))
  t.ok(each.slice((30_000 + settlesForMs) / 1_000).every((sharers) => sharers === 'ab'))
  t.end()
})

t.test('nodes that lose the buffer together keep their shares, also where they notice it apart', (t) => {
  for (const laterMs of [0, 500, 1_500, 2_500]) {
    const each = sharersOfEach(90, {
      a: except(10_000, 40_000),
      b: except(10_000 + laterMs, 40_000 + laterMs),
    })
    t.strictSame(new Set(each), new Set(['ab']), `${laterMs} ms apart`)
  }
  t.end()
})

t.test('the last node that reached the buffer keeps its share when it loses the buffer too', (t) => {
  const each = sharersOfEach(40, { a: except(5_000, 90_000), b: except(15_000, 90_000) })
  t.equal(each.at(-1), 'b')
  t.end()
})

t.test('a connection that comes and goes moves pipes once', (t) => {
  const each = sharersOfEach(120, { a: (atMs) => atMs % 8_000 < 3_000, b: always })
  const changes = each.filter((sharers, second) => second > 0 && sharers !== each[second - 1])
  t.strictSame(changes, ['b'])
  t.strictSame(new Set(sharersOfEach(60, { a: (atMs) => atMs % 6_000 < 4_500, b: always })), new Set(['ab']))
  t.end()
})

t.test('a node that stood still has not lost the buffer', (t) => {
  const history = new ContactHistory(0)
  history.answered(1_000)
  history.failed(9_000)
  t.equal(history.at(9_000).isLost, false, 'one question without an answer')
  history.failed(9_500)
  t.equal(history.at(9_500).isLost, true)
  t.end()
})

t.test('a node of an earlier version says nothing, and proves nothing', (t) => {
  const lost = rowAt(20_000, 'a', except(5_000, 90_000))
  const silent: LiveWorker = { leaseId: 'b', nodeId: 'b', isDraining: false, buffer: null }
  t.strictSame(sharersOf([lost, silent]), ['a', 'b'])
  t.end()
})

t.test('a node that drains takes over from one that is cut off', (t) => {
  const lost = rowAt(20_000, 'a', except(5_000, 90_000))
  const draining = { ...rowAt(20_000, 'b', always), isDraining: true }
  t.strictSame(sharersOf([lost, draining]), ['b'])
  t.end()
})
