/** Who waits for a frame, and for how many: a workspace that sends a lot keeps the others waiting for one frame, not for all of its own. */
import t, { type Test } from 'tap'
import { v4 } from 'uuid'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import type { NewMessage } from '../../../src/log/buffer.ts'
import { type Frame, readFrame } from '../../../src/log/frame.ts'
import { FrameAppender } from '../../../src/log/segments/open-buffer.ts'
import { seeded } from '../../support/faults/random.ts'
import { KiB, MiB, message, newPipeId, openAt, temporaryDirectory } from './open.ts'

/** Keeps the frames that an appender sends; the test settles each of them. */
function appenderWithFrames() {
  const sent: Frame[] = []
  const appender = new FrameAppender(
    (frame) => void sent.push(frame),
    async () => null,
  )
  let settled = 0
  let seq = 1
  /** By msg id, every frame; until nothing is sent any more. */
  const frames = async (onFrame = (_: number) => {}): Promise<string[][]> => {
    const all: string[][] = []
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve))
      const frame = sent[settled]
      if (frame === undefined) return all
      all.push([...readFrame(frame)].map(({ msgId }) => msgId))
      onFrame(settled)
      settled += 1
      const { buffer, count } = frame
      appender.settle({ kind: 'committed', buffer, firstSeq: seq, skipped: [] })
      seq += count
    }
  }
  return { appender, sent, frames }
}

/** A flood of large messages of one workspace with a small one of another behind it: in which frame that is. */
async function frameOfNeighbour(t: Test, floodOf?: string, neighbour?: string): Promise<number> {
  const { appender, frames } = appenderWithFrames()
  const body = Buffer.alloc(5 * MiB, 'x')
  const of = (workspaceId: string | undefined, bytes: Uint8Array | string): NewMessage =>
    message(newPipeId(), bytes, workspaceId === undefined ? {} : { workspaceId })
  for (let n = 0; n < 10; n += 1) void appender.append(of(floodOf, body))
  let small: NewMessage | null = null
  // It comes when the first of the flood is with the writer and the others wait.
  const all = await frames((index) => {
    if (index !== 0) return
    small = of(neighbour, '{}\n')
    void appender.append(small)
  })
  t.equal(all.length, 11)
  return all.findIndex((ids) => ids.includes(small?.msgId ?? ''))
}

t.test('a body that is lent is read before append returns, also of a message that has to wait', async (t) => {
  const { appender, sent, frames } = appenderWithFrames()
  const lent = Buffer.alloc(resourceLimits.frameBytes / 2)
  const texts = Array.from({ length: 6 }, (_, n) => lent.map(() => 65 + n))
  const own = Buffer.from(texts[0]!)
  const append = (body: Uint8Array, isBorrowed: boolean) =>
    void appender.append({ ...message(newPipeId(), body), isBorrowed })
  for (const text of texts) {
    lent.set(text)
    append(lent, true)
  }
  // Negative control: what is not lent and waits is read when its turn comes.
  append(own, false)
  own.fill('z')
  lent.fill('y')
  const bodies: string[] = []
  await frames((index) => {
    for (const { body } of readFrame(sent[index]!)) bodies.push(Buffer.from(body).toString('latin1', 0, 1))
  })
  t.same(bodies, ['A', 'B', 'C', 'D', 'E', 'F', 'z'])
})

t.test('behind a flood of another workspace a message is in one of the next two frames', async (t) => {
  t.ok((await frameOfNeighbour(t, v4(), v4())) <= 2)
  const own = v4()
  t.equal(await frameOfNeighbour(t, own, own), 10, 'control: in the order in which they came it is the last')
  t.equal(await frameOfNeighbour(t), 10, 'those of no workspace are one')
})

t.test('so it is on disk, and the order of a pipe is kept', async (t) => {
  const { handle } = await openAt(t, temporaryDirectory(t))
  const [flood, neighbour] = [v4(), v4()]
  const pipes = [newPipeId(), newPipeId()]
  const body = Buffer.alloc(5 * MiB, 'x')
  const floodSeqs = Array.from({ length: 6 }, (_, n) =>
    handle.appender.append(message(pipes[n % 2]!, body, { workspaceId: flood })),
  )
  const small = handle.appender.append(message(newPipeId(), '{}\n', { workspaceId: neighbour }))
  const seqs = (await Promise.all(floodSeqs)).map(({ seq }) => seq)
  t.ok((await small).seq <= 3)
  t.strictSame(
    seqs,
    [...seqs].sort((a, b) => a - b),
  )
})

t.test('any mixture: frames are bounded, pipes keep their order, everything is sent', async (t) => {
  const random = seeded(7)
  const { appender, sent, frames } = appenderWithFrames()
  const workspaces = Array.from({ length: 5 }, () => ({ id: v4(), pipes: [newPipeId(), newPipeId()] }))
  const given = new Map<string, string[]>()
  const results: Promise<{ msgId: string }>[] = []
  const add = () => {
    const { id, pipes } = workspaces[random.below(5)]!
    const pipeId = pipes[random.below(2)]!
    const size = random.next() < 0.05 ? random.below(6 * MiB) : random.below(300 * KiB)
    const one = message(pipeId, Buffer.alloc(size), { workspaceId: id })
    given.set(pipeId, [...(given.get(pipeId) ?? []), one.msgId])
    results.push(appender.append(one))
  }
  for (let n = 0; n < 150; n += 1) add()
  const pipeOf = new Map<string, string>()
  const all = await frames((index) => {
    const frame = sent[index]!
    t.ok(frame.count === 1 || frame.length <= resourceLimits.frameBytes)
    for (const { msgId, pipeId } of readFrame(frame)) pipeOf.set(msgId, pipeId)
    for (let n = 0; results.length < 300 && n < 10; n += 1) add()
  })
  const order = all.flat()
  t.equal(order.length, 300)
  for (const [pipeId, ids] of given) {
    t.strictSame(
      order.filter((id) => pipeOf.get(id) === pipeId),
      ids,
    )
  }
  t.strictSame((await Promise.all(results)).map(({ msgId }) => msgId).sort(), [...order].sort())
})

t.test('a large message is not overtaken for ever by small ones', async (t) => {
  const { appender, frames } = appenderWithFrames()
  const [large, small] = [v4(), v4()]
  const big = message(newPipeId(), Buffer.alloc(8 * MiB), { workspaceId: large })
  const pipeId = newPipeId()
  const more = () => {
    // More than a frame of them with each frame.
    for (let n = 0; n < 12; n += 1)
      void appender.append(message(pipeId, Buffer.alloc(512 * KiB), { workspaceId: small }))
  }
  more()
  void appender.append(big)
  let sentFrames = 0
  const all = await frames(() => {
    if (++sentFrames < 10) more()
  })
  // It is overtaken by its own size, two frames, and what was in flight and gathered before.
  t.ok(all.findIndex((ids) => ids.includes(big.msgId)) <= 5)
})
