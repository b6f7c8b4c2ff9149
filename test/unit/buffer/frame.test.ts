/** A frame gives back exactly what was put into it. */
import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { appendToFrame, openFrame, readFrame } from '../../../src/log/frame.ts'
import { idempotent, message, newPipeId } from './open.ts'

function roundTrip(messages: ReturnType<typeof message>[], capacityBytes: number, recycled?: ArrayBuffer) {
  const frame = openFrame(capacityBytes, recycled)
  for (const one of messages) appendToFrame(frame, one)
  const buffer = frame.buffer.buffer as ArrayBuffer
  return [...readFrame({ buffer, length: frame.length, count: frame.count })]
}

t.test('messages of every size survive, in order, while the frame grows', async (t) => {
  const sizes = [...Array(130).keys(), 255, 256, 257, 4095, 4096, 65_535, 65_536, 1_048_577]
  const given = sizes.map((size, n) =>
    message(newPipeId(), randomBytes(size), {
      recordCount: n,
      receivedMs: 1_700_000_000_000.5 + n,
      ...(n % 3 === 0 ? idempotent(`schlüssel-${n}-🔑`, `hash-${n}`) : {}),
    }),
  )
  for (const capacityBytes of [1, 96, 4096, 4_194_304]) {
    const got = roundTrip(given, capacityBytes)
    t.equal(got.length, given.length)
    for (const [n, { body, crc, idempotencyKey, bodyHash, ...fields }] of got.entries()) {
      const { body: expected, idempotency, ...rest } = given[n]!
      t.same(fields, rest)
      t.equal(idempotencyKey, idempotency?.key ?? null)
      t.equal(bodyHash, idempotency?.bodyHash ?? null)
      t.ok(Buffer.from(body).equals(expected))
      t.equal(crc, crc32(expected))
    }
  }
})

t.test('what a recycled buffer held before does not show', async (t) => {
  const recycled = new ArrayBuffer(1000)
  new Uint8Array(recycled).fill(0xff)
  const [got] = roundTrip([message(newPipeId(), 'x')], 0, recycled)
  t.equal(Buffer.from(got!.body).toString(), 'x')
  t.equal(got?.idempotencyKey, null)
})
