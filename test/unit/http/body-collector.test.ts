import t from 'tap'
import { BodyCollector } from '../../../src/api/http/exchange.ts'
import { type BodyReceiver, wholeBody } from '../../../src/ingest/body-source.ts'

/** Writes down what it is told. */
class Witness implements BodyReceiver {
  readonly maxBytes = 100
  readonly announcedBytes = Number.NaN
  readonly told: unknown[] = []
  reserved = 0
  body: Buffer | null = null

  reserve(bytes: number): void {
    this.reserved += bytes
  }
  received(body: Buffer, isBorrowed: boolean): void {
    this.body = body
    this.told.push(['received', body.toString(), isBorrowed])
  }
  failed(error: unknown): void {
    this.told.push(['failed', (error as { code: string }).code])
  }
  gone(): void {
    this.told.push('gone')
  }
}

t.test('a body in one piece is lent where it is, one in several is the receiver’s own', async (t) => {
  const alone = new Witness()
  const piece = Buffer.from('{"a":1}')
  new BodyCollector(alone).take(piece, true)
  t.strictSame(alone.told, [['received', '{"a":1}', true]])
  t.equal(alone.body?.buffer, piece.buffer, 'not copied')
  t.equal(alone.reserved, 7)

  const several = new Witness()
  const collector = new BodyCollector(several)
  const reused = Buffer.from('{"a":')
  collector.take(reused, false)
  reused.write('2}xxx')
  collector.take(reused.subarray(0, 2), true)
  t.strictSame(several.told, [['received', '{"a":2}', false]])
})

t.test('a receiver is told one thing, once', async (t) => {
  const large = new Witness()
  const collector = new BodyCollector(large)
  collector.take(Buffer.alloc(101), false)
  collector.take(Buffer.alloc(1), true)
  collector.abandon()
  t.strictSame(large.told, [['failed', 'payload_too_large']])

  const left = new Witness()
  const abandoned = new BodyCollector(left)
  abandoned.take(Buffer.alloc(1), false)
  abandoned.abandon()
  abandoned.abandon()
  t.ok(abandoned.take(Buffer.alloc(1), true), 'what still comes is dropped')
  t.strictSame(left.told, ['gone'])

  const whole = new Witness()
  const done = new BodyCollector(whole)
  done.take(Buffer.from('{}'), true)
  done.abandon()
  t.equal(whole.told.length, 1)
})

t.test('as a promise, a lent body is copied', async (t) => {
  const lent = Buffer.from('{"a":1}')
  const source = (isBorrowed: boolean) => ({
    receive: (receiver: BodyReceiver) => {
      receiver.received(lent, isBorrowed)
      lent.fill('x')
    },
  })
  const limit = { maxBytes: 100, announcedBytes: 7, reserve: () => {} }
  t.equal(String(await wholeBody(source(true), limit)), '{"a":1}')
  lent.write('{"a":1}')
  t.equal(String(await wholeBody(source(false), limit)), 'xxxxxxx', 'negative control: its own is not')
})
