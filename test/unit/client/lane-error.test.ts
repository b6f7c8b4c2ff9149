/** A lane's last error as terminals show it: what the destination named, and what is at fault. */
import t from 'tap'
import { errorLine, errorPlace, faultWords } from '../../../src/apps/client/lane-error.ts'

const unnamed = { record_index: null, column: null, value: null }
const error = {
  class: 'permanent',
  code: '22P02',
  message: 'invalid input',
  fault: 'records',
  ...unnamed,
} as const

t.test('one line, with as much of the place as is known', async (t) => {
  t.equal(errorLine(null), '-')
  t.equal(errorLine(error), '22P02: invalid input')
  const named = { record_index: 0, column: 'n', value: 'a "b"' }
  t.equal(
    errorLine({ ...error, ...named }),
    '22P02: invalid input [record_index 0, column "n", value "a "b""]',
  )
  t.equal(errorPlace({ ...unnamed, column: 'n' }), 'column "n"')
})

t.test('what is at fault; nothing of an error that passes by itself', async (t) => {
  t.match(faultWords(error), /^the records: /)
  t.match(faultWords({ fault: 'destination' }), /a skip does not help/)
  t.equal(faultWords({ fault: null }), '')
})
