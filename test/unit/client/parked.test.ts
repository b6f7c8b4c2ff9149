import t from 'tap'
import {
  compacted,
  editableText,
  errorWords,
  placeWords,
  recordTextsOf,
  shortIds,
} from '../../../src/apps/client/parked.ts'

t.test('records as text to edit: every digit stays, one record is the object that it is', async (t) => {
  const record = '{"n":12345678901234567890,"p":1.10,"t":" a \\" b "}'
  const text = editableText([record])
  t.equal(text, '{\n  "n": 12345678901234567890,\n  "p": 1.10,\n  "t": " a \\" b "\n}')
  t.equal(compacted(text), record)
  t.match(editableText([record, '{}']), /^\[\n {2}\{\n {4}"n": 12345678901234567890/)
  t.same(recordTextsOf(`{"parked_id":"x","records":[${record},{}]}`), [record, '{}'])
})

t.test('ids are cut to eight characters, or to as many more as it takes to tell them apart', async (t) => {
  const ids = ['11111111-aaaa', '22222222-aaaa', '22222222-abaa', '22222222-abab']
  t.same(
    [...shortIds(ids)],
    [
      ['11111111-aaaa', '11111111'],
      ['22222222-aaaa', '22222222-aa'],
      ['22222222-abaa', '22222222-abaa'],
      ['22222222-abab', '22222222-abab'],
    ],
  )
})

t.test('an error in words, with the column and the value where they are known', async (t) => {
  const error = { code: '22P02', message: 'no integer', column: 'id', value: 'abc' }
  t.equal(errorWords(error), '22P02: no integer (column id, value abc)')
  t.equal(errorWords({ ...error, column: null }), '22P02: no integer (value abc)')
  t.equal(errorWords({ ...error, column: null, value: null }), '22P02: no integer')
})

t.test('the place of a record: its message, and its place in it', async (t) => {
  const one = { stream_seq: 104, record_index: 3 }
  t.equal(placeWords(one as never), '104 #3')
  t.equal(placeWords({ ...one, record_index: null } as never), '104')
})
