import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  chunkBytes,
  replicaKey,
  SealError,
  seal,
  sealChunks,
  unseal,
  unsealChunks,
} from '../../../src/replica/sealing.ts'

const key = replicaKey(Buffer.alloc(32, 1))
const otherKey = replicaKey(Buffer.alloc(32, 2))
const name = 'log/00000000000000042'

async function* stream(bytes: Buffer, chunk = 100_000): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk)
}

async function all(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const list: Buffer[] = []
  for await (const chunk of chunks) list.push(chunk)
  return Buffer.concat(list)
}

function faultOf(error: unknown): string {
  return error instanceof SealError ? error.fault : String(error)
}

function unsealFault(key: Buffer, name: string, sealed: Buffer): string {
  try {
    unseal(key, name, sealed)
    return 'none'
  } catch (error) {
    return faultOf(error)
  }
}

async function chunkFault(key: Buffer, name: string, sealed: Buffer): Promise<string> {
  return all(unsealChunks(key, name, stream(sealed))).then(() => 'none', faultOf)
}

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = (copy[at] ?? 0) ^ 1
  return copy
}

t.test('an object is sealed and unsealed', async (t) => {
  for (const plain of [Buffer.alloc(0), Buffer.from('text'), randomBytes(3_000_000)]) {
    const sealed = seal(key, name, plain)
    t.equal(sealed.length, plain.length + 41)
    t.ok(unseal(key, name, sealed).equals(plain))
  }
  t.notOk(seal(key, name, Buffer.from('x')).equals(seal(key, name, Buffer.from('x'))), 'never the same bytes')
  t.notOk(replicaKey(Buffer.alloc(32, 1)).equals(Buffer.alloc(32, 1)), 'the sealing key itself is not used')
})

t.test('an object that was altered, cut off or renamed is rejected', async (t) => {
  const sealed = seal(key, name, Buffer.from('some text'))
  t.equal(unsealFault(key, name, sealed), 'none')
  for (let at = 9; at < sealed.length; at += 1)
    t.equal(unsealFault(key, name, flipped(sealed, at)), 'damaged')
  for (const length of [0, 1, 24, 25, 40, sealed.length - 1])
    t.equal(unsealFault(key, name, sealed.subarray(0, length)), 'damaged')
  t.equal(unsealFault(key, name, Buffer.concat([sealed, Buffer.from('x')])), 'damaged')
  t.equal(unsealFault(key, 'log/00000000000000043', sealed), 'damaged')
})

t.test('another key and a newer format are told apart from damage', async (t) => {
  const sealed = seal(key, name, Buffer.from('text'))
  t.equal(unsealFault(otherKey, name, sealed), 'another_key')
  const newer = Buffer.from(sealed)
  newer[0] = 9
  t.equal(unsealFault(key, name, newer), 'newer_format')
})

t.test('a large object is sealed chunk by chunk', async (t) => {
  const { length } = await all(sealChunks(key, name, stream(Buffer.alloc(0))))
  t.equal(length, 41, 'an empty object is one empty chunk')
  for (const bytes of [0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3 * chunkBytes, 3_500_001]) {
    const plain = randomBytes(bytes)
    for (const chunk of [999, 100_000, 10_000_000]) {
      const sealed = await all(sealChunks(key, name, stream(plain, chunk === 999 ? 50_000 : chunk)))
      t.ok((await all(unsealChunks(key, name, stream(sealed, chunk)))).equals(plain), `${bytes} by ${chunk}`)
    }
  }
})

t.test('a large object that was cut off, reordered, extended or mixed is rejected', async (t) => {
  const plain = randomBytes(3 * chunkBytes)
  const sealed = await all(sealChunks(key, name, stream(plain)))
  const other = await all(sealChunks(key, name, stream(plain)))
  const header = 25
  const piece = chunkBytes + 16
  const parts = [0, 1, 2].map((at) => sealed.subarray(header + at * piece, header + (at + 1) * piece))
  const [first, second, third] = parts as [Buffer, Buffer, Buffer]
  const start = sealed.subarray(0, header)
  t.equal(await chunkFault(key, name, Buffer.concat([start, first, second, third])), 'none')
  t.equal(await chunkFault(key, name, Buffer.concat([start, first, second])), 'damaged', 'without the last')
  t.equal(await chunkFault(key, name, Buffer.concat([start, first, third])), 'damaged', 'without the middle')
  t.equal(await chunkFault(key, name, Buffer.concat([start, second, first, third])), 'damaged', 'reordered')
  t.equal(await chunkFault(key, name, Buffer.concat([sealed, third])), 'damaged', 'extended')
  t.equal(await chunkFault(key, name, sealed.subarray(0, header)), 'damaged', 'only the header')
  t.equal(await chunkFault(key, name, sealed.subarray(0, sealed.length - 1)), 'damaged', 'cut off')
  const mixed = Buffer.concat([sealed.subarray(0, header + piece), other.subarray(header + piece)])
  t.equal(await chunkFault(key, name, mixed), 'damaged', 'continued with another upload of the same object')
  t.equal(await chunkFault(key, 'segments/1', sealed), 'damaged', 'renamed')
  t.equal(await chunkFault(otherKey, name, sealed), 'another_key')
  t.equal(unsealFault(key, name, sealed), 'damaged', 'it is not a small object')
})

t.test('no byte of a damaged chunk is passed on', async (t) => {
  const sealed = await all(sealChunks(key, name, stream(randomBytes(2 * chunkBytes))))
  let passed = 0
  const reading = (async () => {
    for await (const chunk of unsealChunks(key, name, stream(flipped(sealed, sealed.length - 1))))
      passed += chunk.length
  })()
  t.equal(await reading.then(() => 'none', faultOf), 'damaged')
  t.equal(passed, chunkBytes)
})
