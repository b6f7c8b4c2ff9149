/** Threads that die, hang, do not start and throw: each call settles once, as the error that it is, and the next thread starts. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import {
  DeliveryElsewhereError,
  isNoSpace,
  LaneElsewhereError,
  StorageUnavailableError,
} from '../../../src/platform/error-code.ts'
import { Thread, type ThreadOptions, ThreadPool, threadEntry } from '../../../src/platform/threads.ts'
import { until } from '../../support/until.ts'

interface Faulty {
  echo(value: unknown): unknown
  bytes(size: number): Uint8Array
  never(): void
  hang(): void
  exit(): void
  crash(): void
  failUnavailable(): void
  failApi(): void
  failOther(): void
  ask(question: string): unknown
  count(): void
}
interface Starter {
  answer(question: string): string
  counted(n: number): void
}

const dist = fileURLToPath(new URL('../../../dist', import.meta.url))

function start(options: Partial<ThreadOptions<Starter>> = {}, startsBadly = false) {
  const counted: number[] = []
  const thread = new Thread<Faulty, Starter>({
    name: 'faulty',
    entry: new URL('./faulty-thread.mjs', import.meta.url),
    data: { dist, startsBadly },
    errors: { ApiError },
    host: {
      answer(question) {
        if (question === 'lane') throw new LaneElsewhereError('d')
        if (question === 'unavailable') throw new StorageUnavailableError('not now')
        if (question === 'api') throw new ApiError('unauthorized')
        if (question === 'bug') throw new RangeError('a bug of the starter')
        return `${question}!`
      },
      counted: (n) => void counted.push(n),
    },
    ...options,
  })
  t.teardown(() => thread.terminate('the test is over'))
  return Object.assign(thread, { counted })
}

t.test('calls settle by number, before and after the thread is ready, and in both directions', async (t) => {
  const thread = start()
  const early = thread.call('echo', [1])
  await thread.ready
  t.same(
    await Promise.all([
      thread.call('never', [], { maxTicks: 2 }).catch(() => 'late'),
      thread.call('echo', ['x']),
      early,
    ]),
    ['late', 'x', 1],
  )
  t.equal(await thread.call('ask', ['how']), 'how!')
  await thread.call('count', [])
  t.same(thread.counted, [1, 2, 3], 'what it told came before its result')
  t.equal((await thread.call('bytes', [9])).length, 9)
  await thread.close()
  t.same(thread.counted, [1, 2, 3, 101], 'it closed what it had open')
  await t.rejects(thread.call('echo', [2]), StorageUnavailableError)
})

t.test('an error keeps its class and its fields on the way from the thread', async (t) => {
  const thread = start()
  const reason = (method: 'failUnavailable' | 'failApi' | 'failOther') =>
    thread.call(method, []).then(
      () => null,
      (error: unknown) => error,
    )
  const elsewhere = await reason('failUnavailable')
  t.ok(elsewhere instanceof DeliveryElsewhereError && elsewhere instanceof StorageUnavailableError)
  t.match(elsewhere, { name: 'DeliveryElsewhereError', message: 'try again', isUndone: true })
  const api = await reason('failApi')
  t.ok(api instanceof ApiError)
  t.match(api, {
    status: 413,
    code: 'payload_too_large',
    details: { limit: 1 },
    headers: { 'Retry-After': '5' },
  })
  const other = await reason('failOther')
  t.notOk(other instanceof TypeError, 'a class that may not cross')
  t.match(other, { message: 'faulty: a bug', stack: /faulty-thread/ })
  t.ok(isNoSpace(other), 'the code of the system is kept')
  t.notOk(Object.hasOwn(other as object, 'secret'))
})

t.test('an error keeps its class on the way to the thread', async (t) => {
  const thread = start()
  t.match(await thread.call('ask', ['unavailable']), { isUnavailable: true, message: 'not now' })
  t.match(await thread.call('ask', ['lane']), { name: 'LaneElsewhereError', isUnavailable: false })
  t.match(await thread.call('ask', ['api']), { isApi: true, status: 401 })
  t.match(await thread.call('ask', ['bug']), { name: 'Error', message: 'main: a bug of the starter' })
})

for (const [how, cause] of [
  ['exit', /ended with code 3/],
  ['crash', /nothing caught it/],
] as const) {
  t.test(`a thread that dies by ${how} fails the calls under way, once`, async (t) => {
    const thread = start()
    let settled = 0
    const count = () => {
      settled += 1
    }
    const waiting = thread.call('never', [])
    waiting.then(count, count)
    const dying = thread.call(how, [])
    await t.rejects(dying, StorageUnavailableError)
    await t.rejects(waiting, { name: 'StorageUnavailableError', message: /has ended/ })
    t.match(await thread.ended, { error: { message: cause }, isStuck: false })
    await t.rejects(thread.call('echo', [1]), StorageUnavailableError)
    t.equal(settled, 1)
    t.notOk(thread.isUsable)
  })
}

t.test('a thread that cannot start says why, and its calls fail as their starter wants', async (t) => {
  const interrupted = (reason: string, cause?: Error) => new RangeError(reason, { cause })
  const thread = start({ interrupted }, true)
  await t.rejects(thread.call('echo', [1]), { name: 'RangeError', cause: { message: 'it cannot start' } })
  await t.rejects(thread.ready, { message: 'it cannot start' })
})

t.test('a thread that hangs is ended after its ticks; one that waits is not', async (t) => {
  const options = { tickMs: 20, maxSilentTicks: 150, maxStartTicks: 6_000 }
  const [hanging, waiting] = [start(options), start(options)]
  await Promise.all([hanging.ready, waiting.ready])
  const never = waiting.call('never', [])
  const hang = hanging.call('hang', [])
  const read = hanging.call('echo', [1], { maxSilentTicks: 100 })
  await t.rejects(read, { name: 'StorageUnavailableError', message: /gives no sign of life/ })
  t.ok(hanging.isUsable, 'it is silent, and not given up yet')
  await t.rejects(hang, { message: /does not respond/ })
  t.match(await hanging.ended, { error: { message: /no sign of life for 150/ }, isStuck: false })
  // The control: as long without a result, with an event loop that turns.
  t.equal(await waiting.call('echo', [1]), 1)
  const ended = t.rejects(never, StorageUnavailableError)
  await waiting.terminate('the test is over')
  await ended
})

t.test('a thread that is left behind fails its calls at once, and ends when it can', async (t) => {
  let failed = 0
  const thread = start({
    ...{ tickMs: 20, maxSilentTicks: 150, maxStartTicks: 6_000, whenSilent: 'abandon' },
    onAbandoned: (calls) => {
      failed = calls
    },
  })
  await thread.ready
  const hang = thread.call('hang', [])
  await t.rejects(Promise.all([hang, thread.call('never', [])]), { message: /does not respond/ })
  t.equal(failed, 2)
  t.ok(thread.isLeftBehind)
  await thread.terminate('the test is over')
  t.notOk(thread.isLeftBehind)
})

t.test('a deadline fails its call alone, or ends the thread where the call says so', async (t) => {
  const thread = start({ tickMs: 20 })
  const other = thread.call('never', [])
  other.catch(() => {})
  await t.rejects(thread.call('never', [], { maxTicks: 3 }), { message: /takes too long/ })
  t.equal(await thread.call('echo', [1]), 1)
  await t.rejects(thread.call('never', [], { maxTicks: 3, endsThread: true }), { message: /takes too long/ })
  await t.rejects(other, StorageUnavailableError)
  t.match(await thread.ended, { error: { message: /did not respond/ } })
})

t.test(
  'a pool starts threads for its work, replaces one that dies and ends those without work',
  async (t) => {
    const started: Thread<Faulty, Starter>[] = []
    const open = () => {
      const thread = start()
      started.push(thread)
      return thread
    }
    const pool = new ThreadPool(open, { most: 2, idleMs: 50 })
    const echo = (n: number) => pool.run((thread) => thread.call('echo', [n]))
    t.same(await Promise.all([1, 2, 3, 4, 5].map(echo)), [1, 2, 3, 4, 5])
    t.equal(started.length, 2)
    const dying = pool.run((thread) => thread.call('crash', []))
    t.same(await Promise.all([echo(6), echo(7), dying.catch((error) => error.name)]), [
      6,
      7,
      'StorageUnavailableError',
    ])
    t.equal(await echo(8), 8)
    await until('the threads without work have ended', () => started.every((thread) => !thread.isUsable))
    const before = started.length
    t.equal(await echo(9), 9)
    t.equal(started.length, before + 1, 'work starts another')
    const [running, waiting, third] = [1, 2, 3].map(() => pool.run((thread) => thread.call('never', [])))
    const settled = Promise.allSettled([running, waiting, third])
    await pool.close()
    for (const result of await settled)
      t.match(result, { status: 'rejected', reason: { name: 'StorageUnavailableError' } })
    await t.rejects(echo(10), { message: 'the service is stopping' })
  },
)

t.test('an entry has the extension of the module that starts it', async (t) => {
  t.equal(threadEntry('file:///a/b/c.ts', './d-thread').href, 'file:///a/b/d-thread.ts')
  t.equal(threadEntry('file:///a/b/c.js', '../d-thread').href, 'file:///a/d-thread.js')
})
