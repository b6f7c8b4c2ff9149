import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import t from 'tap'
import { validate, version } from 'uuid'
import { batchIdentity, bisectAt, closesInMs, cutBatch } from '../../../src/delivery/batch.ts'
import { retryDelayMs, waitAfterRestartMs } from '../../../src/delivery/clock.ts'
import { LaneSaver } from '../../../src/delivery/lane-opener.ts'
import {
  MemoryBudget,
  type MemoryReservation,
  type WorkspaceMemory,
} from '../../../src/delivery/memory-budget.ts'
import { type LaneCounts, type LaneState, newLaneState } from '../../../src/metadata/lane-state.ts'
import { TestClock } from '../../support/test-clock.ts'

const message = (seq: number, records: number, bytes: number) => ({
  seq,
  pipeId: 'p',
  msgId: randomUUID(),
  receivedMs: 0,
  recordCount: records,
  body: Buffer.alloc(bytes),
})

t.test('the first of records, bytes, seconds closes a batch', async (t) => {
  const limits = { maxRecords: 10, maxBytes: 100, maxSeconds: 5 }
  const backlog = { messages: 1, records: 1, bytes: 1, oldestAgeMs: 2_000 }
  t.equal(closesInMs(backlog, limits), 3_000)
  t.equal(closesInMs({ ...backlog, records: 10 }, limits), 0)
  t.equal(closesInMs({ ...backlog, bytes: 100 }, limits), 0)
  t.equal(closesInMs({ ...backlog, oldestAgeMs: 5_000 }, limits), 0)
  t.equal(closesInMs({ ...backlog, oldestAgeMs: -9e12 }, limits), 5_000, 'never more than the limit')
  t.equal(closesInMs(backlog, { ...limits, maxSeconds: 0 }), 0, '0: send what there is')
  t.equal(closesInMs({ ...backlog, messages: 0 }, limits), Number.POSITIVE_INFINITY)
})

t.test('batches are cut at whole messages; a message over a limit goes alone', async (t) => {
  const limits = { maxRecords: 10, maxBytes: 100 }
  const cut = (...messages: ReturnType<typeof message>[]) => cutBatch(messages, limits).map(({ seq }) => seq)
  t.strictSame(cut(), [])
  t.strictSame(cut(message(1, 5, 10), message(2, 5, 10), message(3, 1, 1)), [1, 2])
  t.strictSame(cut(message(1, 1, 60), message(2, 1, 41)), [1])
  t.strictSame(cut(message(1, 1, 60), message(2, 1, 40)), [1, 2])
  t.strictSame(cut(message(1, 11, 500), message(2, 1, 1)), [1])
  t.strictSame(cut(message(1, 1, 1), message(2, 11, 1), message(3, 1, 1)), [1])
})

t.test('the search for a failing message costs at most 2·log2(n) extra attempts', async (t) => {
  for (const count of [2, 3, 5, 8, 100, 1000, 1023, 1024, 1025]) {
    for (const bad of new Set([1, 2, Math.ceil(count / 2), count - 1, count])) {
      let run = Array.from({ length: count }, (_, index) => message(index + 1, 1, 1))
      let attempts = 0
      while (run.length > 1) {
        const part = run.slice(0, bisectAt(run, undefined))
        attempts += 1
        const fails = part.some(({ seq }) => seq === bad)
        run = fails ? part : run.slice(part.length)
        if (!fails && run.length === 1) attempts += 1
      }
      t.equal(run[0]!.seq, bad)
      t.ok(attempts <= 2 * Math.log2(count), `${count} messages, bad at ${bad}: ${attempts} attempts`)
    }
  }
})

t.test('a hint of the driver is cut at, and nonsense is not believed', async (t) => {
  const run = [1, 3, 5, 7].map((seq) => message(seq, 1, 1))
  t.equal(bisectAt(run, 5), 2)
  t.equal(bisectAt(run, 1), 1)
  t.equal(bisectAt(run, 4), 2, 'no such message: the half')
  t.equal(bisectAt(run, undefined), 2)
})

t.test('full jitter, Retry-After, stalled and blocked waits', async (t) => {
  const failure = { failures: 1, isIsolated: false, isStalled: false, retryAfterMs: undefined }
  const most = () => 0.999999999
  t.equal(
    retryDelayMs(failure, () => 0),
    0,
  )
  t.equal(retryDelayMs({ ...failure, failures: 4 }, most), 7_999)
  t.equal(
    retryDelayMs({ ...failure, failures: 4 }, () => 0.5),
    4_000,
  )
  t.equal(retryDelayMs({ ...failure, failures: 10_000 }, most), 299_999)
  t.equal(retryDelayMs({ ...failure, retryAfterMs: 90_000 }, most), 90_000)
  t.equal(
    retryDelayMs({ ...failure, failures: 20, retryAfterMs: 1 }, most),
    299_999,
    'never less than our own',
  )
  t.equal(retryDelayMs({ ...failure, retryAfterMs: 1e12 }, most), 3_600_000)
  t.equal(retryDelayMs({ ...failure, isIsolated: true }, most), 300_000)
  t.equal(retryDelayMs({ ...failure, isIsolated: true, isStalled: true }, most), 900_000)
})

t.test('a wall-clock time from before a restart is believed for at most 60 s', async (t) => {
  t.equal(waitAfterRestartMs(null, 1_000), 0)
  t.equal(waitAfterRestartMs(500, 1_000), 0)
  t.equal(waitAfterRestartMs(11_000, 1_000), 10_000)
  t.equal(waitAfterRestartMs(9e12, 1_000), 60_000)
})

t.test('a batch is named by destination and range, UUID version 5', async (t) => {
  const destination = '3f1c9a52-5d0e-4f5e-9d57-3b1c4c1f0a11'
  const name = batchIdentity(destination, 1, 20)
  t.ok(validate(name) && version(name) === 5)
  t.equal(batchIdentity(destination, 1, 20), name)
  const others = [
    batchIdentity(destination, 1, 2),
    batchIdentity(destination, 12, 0),
    batchIdentity(randomUUID(), 1, 20),
  ]
  t.equal(new Set([name, ...others]).size, 4)
})

t.test(
  'who waits for memory is overtaken by what fits, but not for long; an oversized batch goes alone',
  async (t) => {
    const all = new MemoryBudget(100)
    const budget = all.of('w')
    const never = new AbortController().signal
    const first = budget.tryReserve(60)!
    t.equal(budget.tryReserve(50), null)
    const order: string[] = []
    const big = budget.reserve(500, never).then((hold) => {
      order.push('big')
      return hold!
    })
    const small = budget.reserve(10, never).then((hold) => {
      order.push('small')
      return hold!
    })
    const smallHold = await small
    smallHold.resize(4)
    t.equal(all.reservedBytes, 64)
    smallHold.release()
    for (let count = 1; count < 16; count += 1) {
      const hold = budget.tryReserve(10)
      t.ok(hold, 'it fits')
      hold!.release()
    }
    t.equal(budget.tryReserve(10), null, 'it was overtaken often enough')
    const later = budget.reserve(10, never)
    first.release()
    const bigHold = await big
    t.equal(all.reservedBytes, 500, 'larger than the budget: alone')
    t.strictSame(order, ['small', 'big'])
    bigHold.release()
    bigHold.release()
    const laterHold = await later
    t.equal(all.reservedBytes, 10, 'released once, however often it is said')
    laterHold!.release()
    t.equal(all.reservedBytes, 0)
  },
)

t.test(
  'a workspace leaves a quarter of what the others leave; one with nothing gets a batch anyway',
  async (t) => {
    const all = new MemoryBudget(100)
    all.share()
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((id) => all.of(id))
    const never = new AbortController().signal
    const held = takeAll(a!, 5)
    t.equal(all.reservedBytes, 75)
    const waitingOfA = a!.reserve(20, never)
    t.equal(takeAll(b!, 1).length, 18, 'three quarters of 25')
    const large = await c!.reserve(400, never)
    t.ok(large, 'nothing under way: beyond the budget')
    t.equal(d!.tryReserve(400), null, 'one at a time')
    let hasD = false
    const ofD = d!.reserve(400, never).then((hold) => {
      hasD = true
      return hold
    })
    for (const hold of held) hold.release()
    t.equal(hasD, false)
    large!.release()
    t.ok(await waitingOfA)
    t.ok(await ofD)
  },
)

function takeAll(memory: WorkspaceMemory, bytes: number): MemoryReservation[] {
  const holds: MemoryReservation[] = []
  for (let hold = memory.tryReserve(bytes); hold !== null; hold = memory.tryReserve(bytes)) holds.push(hold)
  return holds
}

t.test('who gives up waiting for memory lets the next one pass', async (t) => {
  const all = new MemoryBudget(100)
  const budget = all.of('w')
  const held = budget.tryReserve(50)!
  const leaver = new AbortController()
  const big = budget.reserve(90, leaver.signal)
  const small = budget.reserve(50, new AbortController().signal)
  leaver.abort()
  t.equal(await big, null)
  t.ok(await small)
  t.equal(all.reservedBytes, 100)
  t.equal(await budget.reserve(1, leaver.signal), null, 'an interrupted lane gets none')
  held.release()
})

t.test('the share of a new batch leaves something for the next lane, whatever is held', async (t) => {
  const all = new MemoryBudget(16 * 1024 * 1024)
  const budget = all.of('w')
  for (let lane = 0; lane < 6; lane += 1)
    t.ok(budget.tryReserve(budget.shareBytes()), `lane ${lane} gets its share`)
  t.ok(all.reservedBytes < all.maxBytes)
})

t.test('the saves of a tick, and all that come while one runs, are one transaction', async (t) => {
  const saves: { rows: LaneState[]; counts: LaneCounts[] }[] = []
  let finish = () => {}
  const store = {
    load: async () => null,
    take: async () => null,
    repair: async () => {},
    pruneHistory: async () => {},
    save: (rows: readonly LaneState[], counts: readonly LaneCounts[]) => {
      saves.push({ rows: [...rows], counts: [...counts] })
      return new Promise<void>((resolve) => {
        finish = resolve
      })
    },
  }
  const saver = new LaneSaver(store, new TestClock(), pino({ level: 'silent' }))
  const count = (destinationId: string) => ({
    ...{ destinationId, pipeId: 'p' },
    ...{ deliveredRecords: 2, failedAttempts: 1, skippedRecords: 0, filteredRecords: 0 },
  })
  const one = saver.save(newLaneState('a', 1), count('a'))
  const two = saver.save(newLaneState('b', 1), count('b'))
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(
    saves[0]!.rows.map(({ destinationId }) => destinationId),
    ['a', 'b'],
  )
  t.strictSame(saves[0]!.counts, [count('a'), count('b')])
  let isThreeSaved = false
  const three = saver.save(newLaneState('a', 2), null)
  const four = saver.save(newLaneState('a', 3), null).then(() => {
    isThreeSaved = true
  })
  finish()
  await Promise.all([one, two])
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(isThreeSaved, false, 'resolves when it is durable, not before')
  t.strictSame(
    saves[1]!.rows.map(({ cursorSeq }) => cursorSeq),
    [3],
    'the newest row of a lane',
  )
  finish()
  await Promise.all([three, four])
  t.equal(saves.length, 2)
  await saver.drain()
})
