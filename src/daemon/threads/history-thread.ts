/** The history thread: serves looks at the buffer, beside the thread that delivers. It ends when main asks it to. */
import assert from 'node:assert'
import { parentPort, workerData } from 'node:worker_threads'
import { Commits } from '../../observe/history/commits.ts'
import type { FromHistory, HistoryThreadData, ToHistory } from '../../observe/history/history-protocol.ts'
import { openStoredHistory } from '../../observe/history/stored-history.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import { openLog } from '../../platform/log.ts'
import { describeFatalErrors } from '../../platform/storage-error.ts'
import { sentError } from '../../platform/thread-error.ts'
import { bufferPlace, openBufferFeed, openBufferReader, openMessageLookup } from '../../stores/open-log.ts'

assert(parentPort !== null)
const port = parentPort
const { buffer, log: settings } = workerData as HistoryThreadData
describeFatalErrors('looking at the buffer in', bufferPlace(buffer))
const log = openLog(settings, 'history')
const beat = setInterval(() => post({ kind: 'beat' }), 1_000)
const reader = await openBufferReader(buffer, log)
const commits = new Commits(() => openBufferFeed(buffer))
const lookup = await openMessageLookup(buffer)
const history = openStoredHistory(reader, lookup, commits)

port.on('message', (message: ToHistory) => {
  if (message.kind === 'call') void respond(message)
  else void close()
})

async function respond({ id, method, args }: Extract<ToHistory, { kind: 'call' }>): Promise<void> {
  try {
    post({ kind: 'result', id, value: await Reflect.apply(history[method], history, args) })
  } catch (error) {
    const isUnavailable = error instanceof StorageUnavailableError
    if (isUnavailable) log.warn({ err: error, method }, 'history.call_waits')
    else log.error({ err: error, method }, 'history.call_failed')
    post({ kind: 'failure', id, ...sentError(error) })
  }
}

async function close(): Promise<void> {
  clearInterval(beat)
  commits.end()
  await reader.close()
  await lookup.close()
  port.close()
}

function post(message: FromHistory): void {
  port.postMessage(message)
}
