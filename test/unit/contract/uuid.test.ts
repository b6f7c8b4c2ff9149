/** docs/dev/contract.md#ids-and-api-keys: ids are UUIDs; anything else in a path is not an id. */
import t from 'tap'
import { isUuid } from '../../../src/contract/uuid.ts'

t.test('a UUID of any version, in either case', async (t) => {
  for (const text of [
    '6f2c7f3e-8d0b-4f5a-9a53-0c2d4b1e7a90',
    '6F2C7F3E-8D0B-4F5A-9A53-0C2D4B1E7A90',
    '0190b0a0-0000-7000-8000-000000000001',
    '00000000-0000-0000-0000-000000000000',
  ]) {
    t.equal(isUuid(text), true, text)
  }
})

t.test('nothing else', async (t) => {
  const id = '6f2c7f3e-8d0b-4f5a-9a53-0c2d4b1e7a90'
  for (const text of [
    '',
    'x',
    `${id}0`,
    ` ${id}`,
    `${id}\n`,
    `{${id}}`,
    `urn:uuid:${id}`,
    id.replaceAll('-', ''),
    id.replace('6', 'g'),
  ]) {
    t.equal(isUuid(text), false, JSON.stringify(text))
  }
})
