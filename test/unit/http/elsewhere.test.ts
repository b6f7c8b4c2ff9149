/** The response to a client if no node could be asked, or the node that was asked has not responded. */
import { pino } from 'pino'
import t from 'tap'
import { errorResponse } from '../../../src/api/http/response.ts'
import { DeliveryElsewhereError, DeliveryUnavailableError } from '../../../src/platform/error-code.ts'

const log = pino({ level: 'silent' })

function told(error: Error) {
  const { status, headers, body } = errorResponse(error, log, 'test')
  return { status, retryAfter: new Map(headers).get('Retry-After'), body: String(body) }
}

t.test('no owner: nothing was done, and it takes two seconds', (t) => {
  const { status, retryAfter, body } = told(new DeliveryElsewhereError(true, 'no owner'))
  t.strictSame([status, retryAfter], [503, '2'])
  t.match(body, /storage_unavailable.*nothing was done/)
  t.end()
})

t.test('an owner that does not answer: nobody knows', (t) => {
  const { status, retryAfter, body } = told(new DeliveryElsewhereError(false, 'silent'))
  t.strictSame([status, retryAfter], [503, '2'])
  t.match(body, /it is unknown whether/)
  t.end()
})

t.test('on one machine as ever', (t) => {
  const { status, retryAfter, body } = told(new DeliveryUnavailableError('restarting'))
  t.strictSame([status, retryAfter], [503, '5'])
  t.match(body, /Delivery is being restarted/)
  t.end()
})
