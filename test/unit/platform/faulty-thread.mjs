/** A thread of `threads.test.ts`: does what the test asks it to, well or badly. */
import { workerData } from 'node:worker_threads'

const { dist, startsBadly } = workerData.data
const { ThreadHost } = await import(`${dist}/platform/thread-calls.js`)
const { Transferred } = await import(`${dist}/platform/thread-calls.js`)
const errors = await import(`${dist}/platform/error-code.js`)
const { ApiError } = await import(`${dist}/contract/errors.js`)

if (startsBadly) throw new Error('it cannot start')
const host = new ThreadHost({ errors: { ApiError } })
let closed = 0

host.serve(
  {
    echo: (value) => value,
    bytes: (size) => {
      const bytes = new Uint8Array(size)
      return new Transferred(bytes, [bytes.buffer])
    },
    never: () => new Promise(() => {}),
    hang: () => {
      for (;;);
    },
    exit: () => process.exit(3),
    crash: () => {
      setImmediate(() => {
        throw new Error('nothing caught it')
      })
      return new Promise(() => {})
    },
    failUnavailable: () => {
      throw new errors.DeliveryElsewhereError(true, 'try again')
    },
    failApi: () => {
      throw new ApiError('payload_too_large', { details: { limit: 1 }, headers: { 'Retry-After': '5' } })
    },
    failOther: () => {
      throw Object.assign(new TypeError('a bug'), { code: 'ENOSPC', secret: 'hidden' })
    },
    /** Asks the starter, and says how that ended. */
    ask: async (question) => {
      try {
        return await host.call('answer', [question])
      } catch (error) {
        const { name, message, status } = error
        const isUnavailable = error instanceof errors.StorageUnavailableError
        return { name, message, status, isUnavailable, isApi: error instanceof ApiError }
      }
    },
    count: async () => {
      for (let n = 1; n <= 3; n += 1) host.tell('counted', [n])
    },
  },
  {
    onClose: () => {
      closed += 1
      host.tell('counted', [100 + closed])
    },
  },
)
