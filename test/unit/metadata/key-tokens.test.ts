/** docs/dev/contract.md#ids-and-api-keys: the form of API keys. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { hashApiKey, hasValidChecksum, mintApiKey } from '../../../src/metadata/key-tokens.ts'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** CRC-32 bit by bit (polynomial 0xEDB88320), written apart from the one under test. */
function slowCrc32(text: string): bigint {
  let crc = 0xffffffffn
  for (const byte of Buffer.from(text)) {
    crc ^= BigInt(byte)
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1n ? (crc >> 1n) ^ 0xedb88320n : crc >> 1n
  }
  return crc ^ 0xffffffffn
}

function base62Value(digits: string): bigint {
  return [...digits].reduce((sum, digit) => sum * 62n + BigInt(alphabet.indexOf(digit)), 0n)
}

t.equal(slowCrc32('123456789'), 0xcbf43926n, 'the check value that every CRC-32 must give')

t.test('a key is ppl1_, 32 base62 characters and the CRC-32 of both in 6 base62 characters', async (t) => {
  for (let round = 0; round < 200; round += 1) {
    const { apiKey, key } = mintApiKey('production')
    t.match(apiKey, /^ppl1_[0-9A-Za-z]{38}$/)
    t.equal(base62Value(apiKey.slice(-6)), slowCrc32(apiKey.slice(0, -6)))
    t.equal(key.prefix, apiKey.slice(0, 12))
    t.equal(key.hash, createHash('sha256').update(apiKey).digest('hex'))
    t.equal(key.hash, hashApiKey(apiKey))
    t.equal(key.name, 'production')
    t.equal(hasValidChecksum(apiKey), true)
  }
})

t.test('a known key stays valid in later versions', async (t) => {
  const body = `ppl1_${'0'.repeat(32)}`
  let rest = slowCrc32(body)
  let digits = ''
  for (let place = 0; place < 6; place += 1) {
    digits = alphabet[Number(rest % 62n)] + digits
    rest /= 62n
  }
  t.equal(hasValidChecksum(body + digits), true)
  t.equal(hasValidChecksum(`ppl1_${'0'.repeat(32)}000000`), false)
})

t.test('a key with any character changed, cut or added is rejected without a look-up', async (t) => {
  const { apiKey } = mintApiKey('x')
  for (let at = 0; at < apiKey.length; at += 1) {
    const other = apiKey[at] === 'A' ? 'B' : 'A'
    t.equal(hasValidChecksum(apiKey.slice(0, at) + other + apiKey.slice(at + 1)), false, `character ${at}`)
  }
  for (const wrong of [
    '',
    'ppl1_',
    apiKey.slice(1),
    apiKey.slice(0, -1),
    `${apiKey}0`,
    `${apiKey}\n`,
    ` ${apiKey}`,
  ]) {
    t.equal(hasValidChecksum(wrong), false, JSON.stringify(wrong))
  }
})

t.test('keys differ, and every base62 character comes up equally often', async (t) => {
  const counts = new Map<string, number>()
  const seen = new Set<string>()
  const keys = 4_000
  for (let round = 0; round < keys; round += 1) {
    const { apiKey } = mintApiKey('x')
    seen.add(apiKey)
    for (const digit of apiKey.slice(5, 37)) counts.set(digit, (counts.get(digit) ?? 0) + 1)
  }
  t.equal(seen.size, keys)
  // 128,000 draws of 62: chi-squared with 61 degrees of freedom is over 130 once in about a million runs.
  t.ok(chiSquared([...alphabet].map((digit) => counts.get(digit) ?? 0)) < 130)
  // Negative control: bytes taken modulo 62 as they come, where the first 8 characters are 25% more likely.
  const biased = [...alphabet].map((_, index) => Math.round((keys * 32 * (index < 8 ? 5 : 4)) / 256))
  t.ok(chiSquared(biased) > 130)
})

function chiSquared(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
}
