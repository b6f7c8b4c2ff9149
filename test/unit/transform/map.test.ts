import { createHash } from 'node:crypto'
import t from 'tap'
import type { Transform, TransformStep } from '../../../src/contract/transform.ts'
import { compileTransform } from '../../../src/delivery/transform/compile.ts'

const salt = 'salt-of-the-test'
const mapped = (text: string, ...map: TransformStep[]) =>
  compileTransform({ filter: null, map, mask_salt: salt } satisfies Transform)(text)
const hash = (value: string) => createHash('sha256').update(`${salt}${value}`).digest('hex')

t.test('rename keeps the place and every digit of the value', async (t) => {
  const record = '{"a":12345678901234567890, "b" : 1.10 ,"c":[1.0, 2]}'
  t.equal(
    mapped(record, { op: 'rename', from: 'b', to: 'total' }),
    '{"a":12345678901234567890,"total":1.10,"c":[1.0, 2]}',
  )
})

t.test('rename replaces a member that has the new name', async (t) => {
  t.equal(mapped('{"a":1,"b":2,"c":3}', { op: 'rename', from: 'c', to: 'a' }), '{"b":2,"a":3}')
})

t.test('a key that is missing changes nothing', async (t) => {
  const steps: TransformStep[] = [
    { op: 'rename', from: 'x', to: 'y' },
    { op: 'drop', paths: ['x', 'a.b', 'o.x', 'o.p.q'] },
    { op: 'mask', paths: ['x', 'o.x', 'a.b'] },
    { op: 'move', from: 'o.x', to: 'y' },
    { op: 'move', from: 'a.b', to: 'y' },
  ]
  t.equal(mapped('{"a":1,"o":{"p":2}}', ...steps), '{"a":1,"o":{"p":2}}')
})

t.test('drop takes out members, nested ones too', async (t) => {
  t.equal(
    mapped('{"a":1,"o":{"p":2,"q":{"r":3,"s":4}}}', { op: 'drop', paths: ['a', 'o.q.r'] }),
    '{"o":{"p":2,"q":{"s":4}}}',
  )
})

t.test('keep leaves what the paths lead to, and nothing else', async (t) => {
  const record = '{"a":1,"o":{"p":2,"q":{"r":3,"s":4}},"l":[1],"z":0}'
  t.equal(mapped(record, { op: 'keep', paths: ['l', 'o.q.s', 'nothing'] }), '{"o":{"q":{"s":4}},"l":[1]}')
  t.equal(
    mapped(record, { op: 'keep', paths: ['o', 'o.p'] }),
    '{"o":{"p":2,"q":{"r":3,"s":4}}}',
    'the whole wins',
  )
  t.equal(mapped(record, { op: 'keep', paths: ['a.b', 'none'] }), '{}')
})

t.test('mask puts SHA-256 of salt and value in the place of the value', async (t) => {
  t.equal(
    mapped('{"email":"ada@example.com"}', { op: 'mask', paths: ['email'] }),
    `{"email":"${hash('ada@example.com')}"}`,
  )
  t.equal(
    mapped('{"e":"\\u00e4\\n"}', { op: 'mask', paths: ['e'] }),
    `{"e":"${hash('ä\n')}"}`,
    'of the characters',
  )
  t.equal(
    mapped('{"e":"ä\\u000a"}', { op: 'mask', paths: ['e'] }),
    `{"e":"${hash('ä\n')}"}`,
    'however they are written',
  )
  t.equal(
    mapped('{"n":1.10}', { op: 'mask', paths: ['n'] }),
    `{"n":"${hash('1.10')}"}`,
    'of a number its text',
  )
  t.equal(mapped('{"o":{"p":[1, 2]}}', { op: 'mask', paths: ['o.p'] }), `{"o":{"p":"${hash('[1, 2]')}"}}`)
  t.equal(mapped('{"n":null}', { op: 'mask', paths: ['n'] }), '{"n":null}', 'null stays null')
})

t.test(
  'nothing of a masked or dropped key remains in a second copy, nor under another spelling',
  async (t) => {
    const twice = '{"email":"first","\\u0065mail":"second","a":1}'
    t.equal(mapped(twice, { op: 'mask', paths: ['email'] }), `{"email":"${hash('second')}","a":1}`)
    t.equal(mapped(twice, { op: 'drop', paths: ['email'] }), '{"a":1}')
    t.equal(
      mapped('{"u":{"email":"one"},"u":{"email":"two"}}', { op: 'drop', paths: ['u.email'] }),
      '{"u":{}}',
    )
  },
)

t.test('constant replaces in place, or is added at the end', async (t) => {
  t.equal(mapped('{"a":1,"b":2}', { op: 'constant', key: 'a', value: 'x"y' }), '{"a":"x\\"y","b":2}')
  t.equal(
    mapped('{}', { op: 'constant', key: 'a.b', value: null }),
    '{"a.b":null}',
    'a dot is part of the key',
  )
  t.equal(
    mapped('{"b":2}', { op: 'constant', key: 'a', value: 1.5 }, { op: 'constant', key: 'c', value: true }),
    '{"b":2,"a":1.5,"c":true}',
  )
})

t.test('move brings a nested value to the top level', async (t) => {
  const record = '{"user":{"address":{"city":"Bern","zip":3000.0}},"city":"old"}'
  t.equal(
    mapped(record, { op: 'move', from: 'user.address.city', to: 'city' }),
    '{"user":{"address":{"zip":3000.0}},"city":"Bern"}',
  )
  t.equal(mapped('{"a":1}', { op: 'move', from: 'a', to: 'a' }), '{"a":1}')
})

t.test('steps are applied in order', async (t) => {
  const steps: TransformStep[] = [
    { op: 'move', from: 'user.email', to: 'email' },
    { op: 'mask', paths: ['email'] },
    { op: 'rename', from: 'email', to: 'email_hash' },
    { op: 'keep', paths: ['email_hash', 'n'] },
  ]
  t.equal(
    mapped('{"user":{"email":"e"},"n":10000000000000000001}', ...steps),
    `{"n":10000000000000000001,"email_hash":"${hash('e')}"}`,
  )
})

t.test('dots within keys, and keys of prototypes', async (t) => {
  t.equal(mapped('{"a.b":{"c":1},"d":2}', { op: 'move', from: 'a\\.b.c', to: 'x' }), '{"a.b":{},"d":2,"x":1}')
  const odd = '{"__proto__":{"x":1},"constructor":2,"":3}'
  t.equal(mapped(odd, { op: 'drop', paths: ['__proto__.x', 'constructor'] }), '{"__proto__":{},"":3}')
  t.equal(mapped(odd, { op: 'rename', from: '__proto__', to: 'p' }), '{"p":{"x":1},"constructor":2,"":3}')
  t.equal(({} as Record<string, unknown>).x, undefined)
})

t.test('arrays are values: no path leads into them', async (t) => {
  t.equal(mapped('{"l":[{"a":1}]}', { op: 'drop', paths: ['l.0.a', 'l.a'] }), '{"l":[{"a":1}]}')
})

t.test('without steps a record is as it was, byte for byte', async (t) => {
  const record = '{ "a" : 1.0 ,\t"a":2 , "\\u0062": 12345678901234567890 }'
  t.equal(compileTransform({ filter: 'record.a == 2', map: [], mask_salt: null })(record), record)
})
