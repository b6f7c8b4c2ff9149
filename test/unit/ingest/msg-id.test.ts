import t, { type Test } from 'tap'
import { validate, version } from 'uuid'
import { createMsgIds, newMsgId } from '../../../src/ingest/msg-ids.ts'

/** The time of the id, in ms since the epoch. */
function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
}

function requireAscending(t: Test, ids: readonly string[]): void {
  const before = ids.findIndex((id, index) => index > 0 && id <= ids[index - 1]!)
  t.equal(before, -1, 'each is greater than the one before it')
}

t.test('a msg_id is a UUID of version 7 with the time it was made', async (t) => {
  const before = Date.now()
  const ids = Array.from({ length: 5_000 }, newMsgId)
  t.ok(ids.every((id) => validate(id) && version(id) === 7))
  t.equal(new Set(ids).size, ids.length)
  t.equal(new Set(ids.map((id) => id.slice(24))).size, ids.length, 'each has random bits of its own')
  t.ok(timeOf(ids[0]!) >= before)
  requireAscending(t, ids)
})

t.test('ids of one millisecond ascend, also past the places that are kept as text', async (t) => {
  const newId = createMsgIds(() => 1_700_000_000_000)
  const ids = Array.from({ length: 40_000 }, newId)
  requireAscending(t, ids)
  t.ok(ids.every((id) => validate(id) && timeOf(id) === 1_700_000_000_000))
})

t.test(
  'ids ascend when the clock goes back, and when the counter of a millisecond is at its end',
  async (t) => {
    let nowMs = 1_700_000_000_000
    const newId = createMsgIds(
      () => nowMs,
      (bytes) => Buffer.alloc(bytes, 0xff),
    )
    const ids = [newId(), newId()]
    t.strictSame(ids.map(timeOf), [nowMs, nowMs + 1], 'it began at its end')
    t.equal(ids[0]!.slice(14, 23), '7fff-bfff')
    nowMs -= 60_000
    ids.push(newId())
    nowMs += 60_005
    ids.push(newId())
    t.strictSame(ids.slice(2).map(timeOf), [1_700_000_000_002, 1_700_000_000_005])
    requireAscending(t, ids)
  },
)
