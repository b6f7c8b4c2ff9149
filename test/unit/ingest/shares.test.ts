/** Who gets what of the memory for bodies, and in which order those who wait get their turn. */
import t from 'tap'
import { ApiError } from '../../../src/contract/errors.ts'
import { GrowingBuffer } from '../../../src/ingest/growing-buffer.ts'
import { createBodyMemory } from '../../../src/ingest/shared-counters.ts'
import { FairQueue, Semaphore } from '../../../src/platform/semaphore.ts'

const MiB = 1024 * 1024

/** Bodies of `size` that find room, one after another, at most `most`. */
function taken(
  memory: ReturnType<typeof createBodyMemory>,
  workspace: string,
  pipe: string,
  size: number,
  most = 1000,
) {
  const reservations = []
  while (reservations.length < most) {
    const reservation = memory.open({ workspaceId: workspace, pipeId: pipe })
    try {
      reservation.add(size)
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'buffer_unavailable')) throw error
      break
    }
    reservations.push(reservation)
  }
  return reservations
}

t.test(
  'one pipe gets three quarters of the memory, another pipe and another workspace still find room',
  async (t) => {
    const memory = createBodyMemory(16 * MiB)
    const greedy = taken(memory, 'a', 'greedy', MiB)
    t.equal(greedy.length, 12)
    t.equal(taken(memory, 'a', 'other', MiB).length, 2, 'of the same workspace')
    t.equal(taken(memory, 'b', 'b1', MiB).length, 1, 'another workspace')
    t.equal(taken(memory, 'b', 'b2', 60_000, 10).length, 10, 'small bodies')
    t.equal(taken(memory, 'a', 'greedy', 60_000).length, 0, 'but not of the greedy one')
    for (const reservation of greedy) reservation.release()
    t.ok(taken(memory, 'b', 'b1', MiB).length > 0)
  },
)

t.test('one body alone always fits, and what is released is free', async (t) => {
  const memory = createBodyMemory(MiB)
  const huge = memory.open({ workspaceId: 'a', pipeId: 'p' })
  for (let i = 0; i < 10; i++) huge.add(MiB)
  t.throws(() => memory.open({ workspaceId: 'b', pipeId: 'p' }).add(1), { code: 'buffer_unavailable' })
  huge.release()
  const next = memory.open({ workspaceId: 'b', pipeId: 'p' })
  next.add(10 * MiB)
  next.release()
  t.equal(taken(memory, 'a', 'p', MiB / 4).length, 3)
})

t.test('a body in a million pieces is one buffer, and what is counted is what it takes', async (t) => {
  let counted = 0
  const buffer = new GrowingBuffer(Number.POSITIVE_INFINITY, (bytes) => {
    counted += bytes
  })
  const sent = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251))
  for (const byte of sent) buffer.append(Uint8Array.of(byte))
  t.ok(buffer.bytes().equals(sent))
  t.ok(counted >= sent.length && counted <= 2 * sent.length)
  const exact = new GrowingBuffer(100_000, (bytes) => {
    counted = bytes
  })
  for (const byte of sent) exact.append(Uint8Array.of(byte))
  t.equal(exact.bytes().buffer.byteLength, 100_000, 'no more than was announced')
})

t.test('turns go round: workspace by workspace, and within one pipe by pipe', async (t) => {
  const queue = new FairQueue<string>()
  for (let i = 0; i < 3; i++) queue.push({ group: 'a', member: 'p' }, `a/p${i}`)
  for (let i = 0; i < 2; i++) queue.push({ group: 'a', member: 'q' }, `a/q${i}`)
  queue.push({ group: 'b', member: 'r' }, 'b/r0')
  t.same([queue.waiting({ group: 'a', member: 'p' }), queue.waiting({ group: 'b', member: 'q' })], [3, 0])
  const order = []
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) order.push(item)
  t.same(order, ['a/p0', 'b/r0', 'a/q0', 'a/p1', 'a/q1', 'a/p2'])
})

t.test('no more run at once than there are places, also when one fails', async (t) => {
  const turns = new Semaphore(2)
  const turn = (member: string) => ({ turn: { group: 'w', member } })
  let running = 0
  let most = 0
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) =>
      turns.run(
        async () => {
          most = Math.max(most, ++running)
          await new Promise((resolve) => setImmediate(resolve))
          running--
          if (index % 5 === 0) throw new Error('failed')
          return index
        },
        turn(`p${index % 3}`),
      ),
    ),
  )
  t.equal(most, 2)
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 16)
  t.equal(await turns.run(async () => 'free again', turn('p')), 'free again')
})
