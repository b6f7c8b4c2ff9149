import t from 'tap'
import { framingFault, noFraming } from '../../../src/api/http/exchange.ts'

t.test('framing: what could be read two ways is a fault', async (t) => {
  const none = noFraming()
  t.equal(framingFault(none), null)
  t.equal(framingFault({ ...none, contentLengths: 1, contentLength: '12' }), null)
  t.equal(framingFault({ ...none, transferEncodings: 1, transferEncoding: 'Chunked' }), null)
  t.ok(framingFault({ ...none, contentLengths: 2, contentLength: '12' }))
  t.ok(framingFault({ ...none, transferEncodings: 2, transferEncoding: 'chunked' }))
  t.ok(
    framingFault({
      ...none,
      contentLengths: 1,
      contentLength: '1',
      transferEncodings: 1,
      transferEncoding: 'chunked',
    }),
  )
  for (const transferEncoding of ['xchunked', 'gzip, chunked', 'identity', '']) {
    t.ok(framingFault({ ...none, transferEncodings: 1, transferEncoding }), transferEncoding)
  }
  for (const contentLength of ['', '-1', '+1', '1, 1', '0x10', '1e3']) {
    t.ok(framingFault({ ...none, contentLengths: 1, contentLength }), contentLength)
  }
})

t.test('more headers than anyone sends are too many, however short', async (t) => {
  t.equal(framingFault({ ...noFraming(), headers: 100 }), null)
  t.equal(framingFault({ ...noFraming(), headers: 101 })?.status, 431)
})
