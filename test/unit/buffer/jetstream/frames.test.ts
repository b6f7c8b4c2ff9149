/** The name of a frame in JetStream, its headers and its `seq`. */
import { crc32 } from 'node:zlib'
import t from 'tap'
import {
  bufferSubjects,
  chainSubject,
  decodeFrame,
  decodeHead,
  encodeHead,
  FrameDamagedError,
  frameSubject,
  indexOf,
  messagesPerFrame,
  pipeIdOf,
  pipeSubjects,
  seqOf,
  streamSeqOf,
} from '../../../../src/cluster/jetstream/frames.ts'
import { headers } from '../../../../src/cluster/nats/headers.ts'
import { appendToFrame, openFrame } from '../../../../src/log/frame.ts'
import { idempotent, message, newPipeId } from '../open.ts'

const head = {
  workspaceId: 'w-1',
  messages: 1_024,
  records: 2_048,
  bytes: 4_194_304,
  firstMs: 1_800_000_000_000,
  lastMs: 1_800_000_000_123,
}

t.test('a seq is the sequence of the stream and the place in the frame', async (t) => {
  for (const [streamSeq, index] of [
    [1, 0],
    [1, 1_023],
    [8_000_000_000_000, 1_023],
  ] as const) {
    const seq = seqOf(streamSeq, index)
    t.ok(Number.isSafeInteger(seq))
    t.equal(streamSeqOf(seq), streamSeq)
    t.equal(indexOf(seq), index)
  }
  t.equal(seqOf(1, messagesPerFrame - 1) + 1, seqOf(2, 0), 'the next frame follows the last place')
})

t.test('subjects: a pipe has its own, and one for each chain of frames with keys', async (t) => {
  const pipeId = newPipeId()
  t.equal(bufferSubjects('east'), 'pipectl.east.buffer.>')
  t.equal(pipeSubjects({ cluster: 'east', pipeId }), `pipectl.east.buffer.${pipeId}.>`)
  t.equal(frameSubject({ cluster: 'east', pipeId }), `pipectl.east.buffer.${pipeId}.f`)
  t.equal(chainSubject({ cluster: 'east', pipeId, chain: 'abc-1' }), `pipectl.east.buffer.${pipeId}.k.abc-1`)
  t.equal(pipeIdOf({ cluster: 'east', subject: frameSubject({ cluster: 'east', pipeId }) }), pipeId)
  t.equal(
    pipeIdOf({ cluster: 'east', subject: chainSubject({ cluster: 'east', pipeId, chain: 'abc-1' }) }),
    pipeId,
  )
})

t.test('the headers give back what was put into them', async (t) => {
  t.same(decodeHead(encodeHead(head)), head)
})

t.test('what is no frame is refused with what is wrong', async (t) => {
  t.throws(() => decodeHead(undefined), FrameDamagedError)
  t.throws(() => decodeHead(headers()), { name: 'FrameDamagedError', message: /Pipectl-Count/ })
  t.throws(() => decodeHead(encodeHead({ ...head, messages: 1_025 })), FrameDamagedError)
  t.throws(() => decodeHead(encodeHead({ ...head, records: -1 })), /Pipectl-Records/)
  const broken = encodeHead(head)
  broken.set('Pipectl-Bytes', '1e999')
  t.throws(() => decodeHead(broken), /Pipectl-Bytes/)
})

t.test('a frame is read from wherever it lies in memory, and only whole', async (t) => {
  const pipeId = newPipeId()
  const given = [
    message(pipeId, Buffer.from('{"n":1}')),
    message(pipeId, Buffer.alloc(100, 'x'), idempotent('k', 'h')),
  ]
  const frame = openFrame(16)
  for (const one of given) appendToFrame(frame, one)
  const inside = Buffer.concat([
    Buffer.from('before'),
    frame.buffer.subarray(0, frame.length),
    Buffer.from('after'),
  ])
  const data = inside.subarray(6, 6 + frame.length)
  const got = decodeFrame(data, 2)
  t.same(
    got.map(({ msgId, body, crc, idempotencyKey }) => [
      msgId,
      Buffer.from(body).toString(),
      crc,
      idempotencyKey,
    ]),
    given.map(({ msgId, body, idempotency }) => [
      msgId,
      Buffer.from(body).toString(),
      crc32(body),
      idempotency?.key ?? null,
    ]),
  )
  t.throws(() => decodeFrame(data, 1), FrameDamagedError)
  t.throws(() => decodeFrame(data, 3), FrameDamagedError)
  t.throws(() => decodeFrame(data.subarray(0, data.length - 1), 2), FrameDamagedError)
  t.throws(() => decodeFrame(new Uint8Array(0), 1), FrameDamagedError)
})
