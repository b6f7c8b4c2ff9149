/** The serial queue and the back-off that everything shares. */
import t from 'tap'
import { backoffMs } from '../../../src/platform/backoff.ts'
import { SerialQueue } from '../../../src/platform/serial-queue.ts'

t.test('work runs one after the other, in its order, and a failure keeps nothing behind it', async (t) => {
  const queue = new SerialQueue()
  const events: string[] = []
  const work = (name: string) => async () => {
    events.push(`${name} begins`)
    await new Promise((resolve) => setImmediate(resolve))
    events.push(`${name} ends`)
    if (name === 'b') throw new Error('b fails')
    return name
  }
  const [a, b, c] = ['a', 'b', 'c'].map((name) => queue.run(work(name)))
  t.equal(queue.size, 3)
  await t.rejects(b!, /b fails/)
  t.same(await Promise.all([a, c]), ['a', 'c'])
  t.same(
    events,
    ['a', 'b', 'c'].flatMap((name) => [`${name} begins`, `${name} ends`]),
  )
  t.equal(queue.size, 0)
})

t.test('ended waits for what has come so far, also for what fails', async (t) => {
  const queue = new SerialQueue()
  let isDone = false
  queue
    .run(async () => {
      await new Promise((resolve) => setImmediate(resolve))
      isDone = true
      throw new Error('it fails')
    })
    .catch(() => {})
  await queue.ended()
  t.ok(isDone)
})

t.test('waits double from failure to failure, up to the longest', async (t) => {
  t.same(
    [1, 2, 3, 4, 5, 1_000_000].map((failures) => backoffMs(failures, 250, 3_000)),
    [250, 500, 1_000, 2_000, 3_000, 3_000],
  )
})
