import { randomBytes } from 'node:crypto'
import t from 'tap'
import { replicaKey, seal } from '../../../src/replica/sealing.ts'
import {
  decodeSlot,
  encodeSlot,
  type Slot,
  SlotError,
  type SlotHeader,
  slotName,
  slotOfName,
} from '../../../src/replica/slot.ts'

const key = replicaKey(Buffer.alloc(32, 1))
const header: SlotHeader = {
  format: 1,
  slot: 421,
  generation: 3,
  writerId: 'writer',
  previous: 'ab'.repeat(32),
  createdMs: 1_790_000_000_000,
  dataDirId: 'dir',
  epoch: 2,
  log: { firstSeq: 7, lastSeq: 9, messages: 3, bytes: 100 },
  headSeq: 9,
  keptFromSeq: 1,
  metadataRows: 2,
  recordingId: 'recording',
  complete: true,
  version: '0.2.0',
}
const slot: Slot = { header, logRows: randomBytes(100), metadataRows: randomBytes(50) }

function fault(decode: () => unknown): string {
  try {
    decode()
    return 'none'
  } catch (error) {
    if (error instanceof SlotError) return error.fault
    throw error
  }
}

/** A slot of our key whose content is not what its release writes. */
function slotWith(change: Record<string, unknown>): Buffer {
  const text = Buffer.from(JSON.stringify({ ...header, ...change }))
  const lengths = Buffer.alloc(12)
  lengths.writeUInt32BE(text.length, 0)
  return seal(key, slotName(421), Buffer.concat([lengths, text]))
}

t.test('a slot is encoded and decoded', async (t) => {
  const { name, body, checksum } = encodeSlot(key, slot)
  t.equal(name, 'log/00000000000000421')
  t.same(decodeSlot(key, name, body), { slot, checksum })
  const empty: Slot = {
    header: { ...header, log: null, metadataRows: 0 },
    logRows: Buffer.alloc(0),
    metadataRows: Buffer.alloc(0),
  }
  t.same(decodeSlot(key, name, encodeSlot(key, empty).body).slot, empty)
  t.not(encodeSlot(key, slot).checksum, checksum, 'two encodings of a slot are told apart')
})

t.test('the order of names is the order of slots', async (t) => {
  const slots = [0, 1, 9, 10, 99_999, 100_000, Number.MAX_SAFE_INTEGER]
  const names = slots.map(slotName)
  t.same([...names].sort(), names)
  t.same(names.map(slotOfName), slots)
  for (const other of [
    'log/42',
    'log/0000000000000042x',
    'segments/00000000000000421',
    'log/000000000000004211',
  ])
    t.equal(slotOfName(other), null, other)
})

t.test('a slot says what is wrong with it', async (t) => {
  const { name, body } = encodeSlot(key, slot)
  t.equal(
    fault(() => decodeSlot(key, name, body)),
    'none',
  )
  t.equal(
    fault(() => decodeSlot(key, name, body.subarray(0, body.length - 1))),
    'damaged',
  )
  t.equal(
    fault(() => decodeSlot(key, slotName(422), body)),
    'damaged',
  )
  t.equal(
    fault(() => decodeSlot(replicaKey(Buffer.alloc(32, 2)), name, body)),
    'another_key',
  )
  t.equal(
    fault(() => decodeSlot(key, name, slotWith({}))),
    'none',
  )
  t.equal(
    fault(() => decodeSlot(key, name, slotWith({ format: 2 }))),
    'newer_format',
  )
  t.equal(
    fault(() => decodeSlot(key, name, slotWith({ slot: 420 }))),
    'damaged',
  )
  t.equal(
    fault(() => decodeSlot(key, name, seal(key, name, Buffer.from('short')))),
    'damaged',
  )
  t.equal(
    fault(() => decodeSlot(key, name, seal(key, name, Buffer.alloc(30, 255)))),
    'damaged',
  )
})
