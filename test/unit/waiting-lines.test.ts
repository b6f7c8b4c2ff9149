/** Who waits, for memory or for a frame: thousands can, and what it takes to find the next one must not grow with all of them. */
import t, { type Test } from 'tap'
import type { MemoryReservation } from '../../src/delivery/memory-budget.ts'
import { startCountingWork } from '../support/count-work.ts'
import { seeded } from '../support/faults/random.ts'

const counter = await startCountingWork()
const { FirstFit } = await import('../../src/platform/first-fit.ts')
const { MemoryBudget } = await import('../../src/delivery/memory-budget.ts')
const { AppendQueue } = await import('../../src/log/group-commit.ts')

const KiB = 1024

t.test('the first item that is small enough is found, whatever came and went before', async (t) => {
  const { below } = seeded(1)
  const line = new FirstFit<{ size: number }>()
  const items: { size: number }[] = []
  for (let step = 0; step < 20_000; step += 1) {
    const item = items[below(items.length)]
    const action = below(step % 4_000 < 2_500 ? 4 : 6)
    if (action < 2 || item === undefined) {
      const added = { size: below(50) }
      items.push(added)
      line.push(added, added.size)
    } else if (action === 2) {
      item.size = below(50)
      line.resize(item, item.size)
    } else if (action > 3) {
      items.splice(items.indexOf(item), 1)
      line.delete(item)
    }
    const limit = below(50)
    const sizes = items.map(({ size }) => size)
    if (line.first(limit) !== items.find(({ size }) => size <= limit)) t.fail(`step ${step}: another one`)
    if (line.first() !== items[0] || line.count !== items.length) t.fail(`step ${step}: another first one`)
    if (line.smallestSize !== Math.min(...sizes)) t.fail(`step ${step}: another smallest size`)
  }
  t.equal(line.resize({ size: 1 }, 1), false)
})

t.test('no batch is overtaken more than 16 times by its workspace, and all of them get memory', async (t) => {
  const { below } = seeded(2)
  const budget = new MemoryBudget(1_000 * KiB)
  budget.share()
  const memories = ['a', 'b', 'c'].map((id) => budget.of(id))
  const held: MemoryReservation[] = []
  const waiting = memories.map(() => new Set<{ overtaken: number; leaver: AbortController }>())
  let most = 0
  let granted = 0
  const gets = (reservation: MemoryReservation, before: Iterable<{ overtaken: number }>) => {
    granted += 1
    held.push(reservation)
    for (const one of before) {
      one.overtaken += 1
      most = Math.max(most, one.overtaken)
    }
  }
  for (let step = 0; step < 3_000; step += 1) {
    const at = below(memories.length)
    const line = waiting[at]!
    const bytes = (below(10) === 0 ? 400 + below(900) : 1 + below(100)) * KiB
    const action = below(4)
    if (action === 0) {
      const reservation = memories[at]!.tryReserve(bytes)
      if (reservation !== null) gets(reservation, line)
    } else if (action === 1) {
      const one = { overtaken: 0, leaver: new AbortController() }
      const older = [...line]
      line.add(one)
      void memories[at]!.reserve(bytes, one.leaver.signal).then((reservation) => {
        line.delete(one)
        if (reservation !== null)
          gets(
            reservation,
            older.filter((other) => line.has(other)),
          )
      })
    } else if (action === 2) held.splice(below(held.length), 1)[0]?.release()
    else if (below(20) === 0) [...line][below(line.size)]?.leaver.abort()
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (let left = held.pop(); left !== undefined; left = held.pop()) {
    left.release()
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(most, 16, 'some are overtaken so often')
  t.ok(granted > 300)
  t.same(
    waiting.map(({ size }) => size),
    [0, 0, 0],
  )
  t.equal(budget.reservedBytes, 0)
})

t.test('workspaces whose lanes wait take turns', async (t) => {
  const budget = new MemoryBudget(100)
  budget.share()
  const first = budget.of('other').tryReserve(75)!
  const order: string[] = []
  const holds: MemoryReservation[] = []
  for (const id of ['a', 'a', 'a', 'b', 'b']) {
    void budget
      .of(id)
      .reserve(18, new AbortController().signal)
      .then((hold) => {
        order.push(id)
        holds.push(hold!)
      })
  }
  await null
  first.release()
  for (let left = holds.shift(); left !== undefined; left = holds.shift()) {
    left.release()
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.same(order, ['a', 'b', 'a', 'b', 'a'])
})

/** Lanes wait for memory, and each gets it, one after the other. */
async function drainLanes(count: number, lanesOfWorkspace: number): Promise<void> {
  const budget = new MemoryBudget(16 * 1024 * KiB)
  if (lanesOfWorkspace < count) budget.share()
  const holds: MemoryReservation[] = []
  let granted = 0
  for (let lane = 0; lane < count; lane += 1) {
    const memory = budget.of(`w${Math.floor(lane / lanesOfWorkspace)}`)
    const bytes = ((lane % 7) + 1) * 256 * KiB
    void memory.reserve(bytes, new AbortController().signal).then((hold) => {
      granted += 1
      holds.push(hold!)
    })
  }
  await null
  for (let left = holds.shift(); left !== undefined; left = holds.shift()) {
    left.release()
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (granted !== count) throw new Error(`${granted} of ${count} lanes got memory`)
}

/** `drain` of ten times as much must not be a hundred times the work. */
async function compareWork(t: Test, modules: string[], drain: (count: number) => Promise<void> | void) {
  await counter.take([])
  await drain(1_000)
  const fewer = await counter.take(modules)
  await drain(10_000)
  const work = await counter.take(modules)
  t.comment(`${fewer} steps for 1,000, ${work} for 10,000`)
  t.ok(fewer > 10_000, 'work is counted')
  t.ok(work < 20 * fewer, 'ten times as many take about ten times the work')
}

for (const lanesOfWorkspace of [10_000, 200, 1]) {
  t.test(`10,000 lanes wait for memory, ${lanesOfWorkspace} of a workspace: none looks at all of them`, (t) =>
    compareWork(t, ['delivery/memory-budget', 'platform/first-fit'], (count) =>
      drainLanes(count, lanesOfWorkspace),
    ),
  )
}

t.test('messages of 10,000 workspaces wait for a frame: none looks at all of them', (t) =>
  compareWork(t, ['log/group-commit', 'platform/first-fit'], (count) => {
    const queue = new AppendQueue<number>()
    for (let n = 0; n < count; n += 1) queue.push(`w${n}`, 1 + ((n * 7_919) % 1_000), n)
    for (let n = 0; n < count; n += 1) queue.push(`w${n}`, 10, count + n)
    let left = 2 * count
    while (queue.shift() !== undefined) left -= 1
    t.equal(left, 0)
  }),
)
