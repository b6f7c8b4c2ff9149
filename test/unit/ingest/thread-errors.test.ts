/** An ingest thread asks main, and main's look-up fails: the client gets the same response as from main itself. */
import { MessageChannel } from 'node:worker_threads'
import { pino } from 'pino'
import t from 'tap'
import { asApiError } from '../../../src/api/http/response.ts'
import { AskedDirectorySource } from '../../../src/api/ingest-threads/asked-directory.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { sentError } from '../../../src/platform/thread-error.ts'

const log = pino({ level: 'silent' })

/** Three threads' sources; main rejects each question with this error. */
async function told(error: Error) {
  const found = []
  for (let thread = 0; thread < 3; thread += 1) {
    const { port1: main, port2: ingest } = new MessageChannel()
    const source = new AskedDirectorySource((id) => ingest.postMessage(id))
    main.on('message', (id: number) => main.postMessage({ id, error: sentError(error) }))
    ingest.on('message', (answer) => source.failed(answer.id, answer.error))
    const api = await source.key('unknown').then(
      () => null,
      (received: unknown) => asApiError(received, log, 'ingest'),
    )
    found.push([api?.status, api?.code, api?.headers['Retry-After']])
    main.close()
  }
  return found
}

t.test('metadata that is unavailable is 503 in every thread, and worth a retry', async (t) => {
  const expected = Array(3).fill([503, 'storage_unavailable', '5'])
  t.same(await told(new StorageUnavailableError('the database does not respond')), expected)
})

t.test('anything else is an error of the service', async (t) => {
  t.same(await told(new Error('a bug')), Array(3).fill([500, 'server_error', undefined]))
})
