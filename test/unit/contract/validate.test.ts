/** Validation (docs/dev/contract.md#validation-errors): a flat map of dot-joined paths to sentences for people. */
import t from 'tap'
import Type from 'typebox'
import { ApiError } from '../../../src/contract/errors.ts'
import { PipeCreate } from '../../../src/contract/pipe.ts'
import { requireObject, shapeFaults, validate } from '../../../src/contract/validate.ts'

const Body = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 5 }),
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: 9 })),
    kind: Type.Optional(Type.Enum(['active', 'paused'])),
    maybe: Type.Optional(Type.Union([Type.String({ maxLength: 3 }), Type.Null()])),
    port: Type.Optional(
      Type.Union([Type.Integer({ minimum: 1, maximum: 65535 }), Type.String({ pattern: '^[0-9]{1,5}$' })]),
    ),
    list: Type.Optional(
      Type.Array(Type.Object({ field: Type.String() }, { additionalProperties: false }), { minItems: 1 }),
    ),
    map: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 2 }), { maxProperties: 2 })),
  },
  { additionalProperties: false },
)
/** The errors of `value` as a plain object. */
const errorsOf = (value: unknown, prefix?: string) => ({ ...shapeFaults(Body, value, prefix) })

t.test('a body that fits has no errors', async (t) => {
  t.same(
    errorsOf({ name: 'abc', count: 3, kind: 'active', maybe: null, port: '80', list: [{ field: '' }] }),
    {},
  )
})

t.test('each kind of mistake is told in words, on its own path', async (t) => {
  const cases: [value: Record<string, unknown>, path: string, message: string][] = [
    [{}, 'name', 'is required'],
    [{ name: '' }, 'name', 'must not be empty'],
    [{ name: 'x'.repeat(612) }, 'name', 'must be at most 5 characters, not 612'],
    [{ name: 5 }, 'name', 'must be a string, not a number'],
    [{ name: null }, 'name', 'must be a string, not null'],
    [{ name: 'a', count: 0 }, 'count', 'must be at least 1, not 0'],
    [{ name: 'a', count: 10 }, 'count', 'must be at most 9, not 10'],
    [{ name: 'a', count: 1.5 }, 'count', 'must be a whole number, not 1.5'],
    [{ name: 'a', count: '1' }, 'count', 'must be a whole number, not a string'],
    [{ name: 'a', kind: 'gone' }, 'kind', 'must be one of active, paused'],
    [{ name: 'a', maybe: 'long!' }, 'maybe', 'must be at most 3 characters, not 5'],
    [{ name: 'a', maybe: 5 }, 'maybe', 'must be a string or null, not a number'],
    [{ name: 'a', port: 70000 }, 'port', 'must be at most 65535, not 70000'],
    [{ name: 'a', port: 'http' }, 'port', 'must be a port number from 1 to 65535'],
    [{ name: 'a', port: true }, 'port', 'must be a whole number or a string, not true'],
    [{ name: 'a', list: {} }, 'list', 'must be a list, not an object'],
    [{ name: 'a', list: [] }, 'list', 'must have at least 1 element'],
    [{ name: 'a', list: [{ field: 'x' }, {}] }, 'list.1.field', 'is required'],
    [{ name: 'a', list: [{ field: 'x', other: 1 }] }, 'list.0.other', 'Unknown field.'],
    [{ name: 'a', map: { 'x-y': 'long' } }, 'map.x-y', 'must be at most 2 characters, not 4'],
    [{ name: 'a', map: { a: '', b: '', c: '' } }, 'map', 'must have at most 2 keys'],
    [{ name: 'a', other: 1 }, 'other', 'Unknown field.'],
  ]
  for (const [value, path, message] of cases) t.same(errorsOf(value), { [path]: message }, message)
})

t.test('every wrong field is named, however many there are', async (t) => {
  const wrong = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`field_${index}`, index]))
  t.equal(Object.keys(errorsOf({ name: 'a', ...wrong })).length, 50)
  t.equal(Object.keys(errorsOf({ name: 'a', list: Array.from({ length: 30 }, () => ({})) })).length, 30)
})

t.test('paths carry a prefix, and keys with slashes and tildes as they were sent', async (t) => {
  t.same(errorsOf({ 'a/b~c': 1 }, 'destination_config'), {
    'destination_config.name': 'is required',
    'destination_config.a/b~c': 'Unknown field.',
  })
})

t.test('a __proto__ key is a field like any other', async (t) => {
  const errors = shapeFaults(Body, JSON.parse('{"name":"a","__proto__":{"x":1}}'))
  t.same(Object.keys(errors), ['__proto__'])
  t.equal(JSON.stringify(errors), '{"__proto__":"Unknown field."}')
})

t.test('lengths count characters, not UTF-16 units', async (t) => {
  t.same(errorsOf({ name: '😀😀😀😀😀' }), {})
  t.same(errorsOf({ name: '😀😀😀😀😀😀' }), { name: 'must be at most 5 characters, not 6' })
})

t.test('a value never stands in a sentence when it may be a secret', async (t) => {
  const text = JSON.stringify(errorsOf({ name: 'a', count: 'hunter2', kind: 'hunter2', port: 'hunter2' }))
  t.notMatch(text, /hunter2/)
  t.notMatch(JSON.stringify(errorsOf({ name: 4711, maybe: 4711 })), /4711/)
})

t.test('a body that is no object is rejected on the empty path', async (t) => {
  for (const body of [undefined, null, [], [{}], 'text', 5, true]) {
    try {
      requireObject(body)
      t.fail('it was taken')
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      t.equal(error.code, 'validation_error')
      t.match(error.details, { errors: { '': /^The body must be a JSON object/ } })
    }
  }
  const object = {}
  t.equal(requireObject(object), object)
})

t.test('validate answers the body itself, or throws validation_error', async (t) => {
  const body = { pipe_name: 'events' }
  t.equal(validate(PipeCreate, body), body)
  t.throws(() => validate(PipeCreate, {}), { code: 'validation_error', status: 400 })
})

t.test('lone surrogates are named wherever they are, in values and in keys', async (t) => {
  t.same(errorsOf({ name: 'a\ud800', list: [{ field: '\udc00' }], map: { 'k\ud800': 'x' } }), {
    name: 'must be valid Unicode text',
    'list.0.field': 'must be valid Unicode text',
    'map.k\ud800': 'must be valid Unicode text',
  })
  t.same(errorsOf({ name: '😀' }), {})
  t.throws(() => validate(Body, { name: '\ud800' }), { code: 'validation_error' })
})
