/** An ingest thread asks main, and main's look-up fails: the client gets the same response as from main itself. */
import { MessageChannel } from 'node:worker_threads'
import { pino } from 'pino'
import t from 'tap'
import { asApiError } from '../../../src/api/http/response.ts'
import { sourceOf } from '../../../src/api/ingest-threads/ingest-server.ts'
import type { IngestCalls, IngestReports } from '../../../src/api/ingest-threads/protocol.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { callsOver } from '../../../src/platform/thread-calls.ts'

const log = pino({ level: 'silent' })

/** The two ends of a thread's connection to main; main rejects each question with this error. */
function connected(error: Error) {
  const { port1, port2 } = new MessageChannel()
  const main = callsOver<IngestCalls, IngestReports>('ingest-0', port1)
  const thread = callsOver<IngestReports, IngestCalls>('main', port2)
  const reject = () => Promise.reject(error)
  const none = () => {}
  main.serve({
    ...{ allPipes: reject, allKeys: reject, pipe: reject, key: reject, keyById: reject, quota: reject },
    ...{ park: reject, unpark: reject },
    ...{ request: none, body: none, gone: none, sent: none, taken: none },
    ...{ rejected: none, mismatched: none, keysUsed: none, failed: none, closed: none },
  })
  return { main, thread, close: () => port1.close() }
}

/** The responses of three threads to a request whose key is looked for. */
async function responses(error: Error) {
  const found = []
  for (let index = 0; index < 3; index += 1) {
    const { thread, close } = connected(error)
    const api = await sourceOf(thread)
      .key('unknown')
      .then(
        () => null,
        (received: unknown) => asApiError(received, log, 'ingest'),
      )
    found.push([api?.status, api?.code, api?.headers['Retry-After']])
    close()
  }
  return found
}

t.test('metadata that is unavailable is 503 in every thread, and worth a retry', async (t) => {
  const expected = Array(3).fill([503, 'storage_unavailable', '5'])
  t.same(await responses(new StorageUnavailableError('the database does not respond')), expected)
})

t.test('anything else is an error of the service', async (t) => {
  t.same(await responses(new Error('a bug')), Array(3).fill([500, 'server_error', undefined]))
})

t.test('a change that a thread could not load is unavailable to management as well', async (t) => {
  const { main, thread, close } = connected(new StorageUnavailableError('the database does not respond'))
  const none = () => {}
  const source = sourceOf(thread)
  thread.serve({
    refresh: async () => void (await source.pipe('p')),
    ...{ open: none, listen: none, stopListening: none, trust: none, drain: none, idle: none },
    ...{ loadGeo: none, stopping: none, closeSockets: none },
    ...{ respond: none, stream: none, piece: none, streamEnd: none },
  })
  const refreshed = main.call('refresh', [{ pipeId: 'p' }])
  await t.rejects(refreshed, StorageUnavailableError)
  t.match(await refreshed.catch((error: unknown) => asApiError(error, log, 'management')), { status: 503 })
  close()
})
