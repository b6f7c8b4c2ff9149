/**
 * The history thread: serves look-ups of messages, so that the delivery thread does not. It ends when main asks for
 * it.
 */
import { Commits } from '../../observe/history/commits.ts'
import type { History } from '../../observe/history/history.ts'
import type { HistoryThreadData } from '../../observe/history/history-proxy.ts'
import { openStoredHistory } from '../../observe/history/stored-history.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import { openLog } from '../../platform/log.ts'
import { describeFatalErrors } from '../../platform/storage-error.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import { bufferPlace, openBufferFeed, openBufferReader, openMessageLookup } from '../../stores/open-log.ts'

const host = new ThreadHost<HistoryThreadData, History>()
const { buffer, log: settings } = host.data
describeFatalErrors('reading the buffer in', bufferPlace(buffer))
const log = openLog(settings, 'history')
const reader = await openBufferReader(buffer, log)
const commits = new Commits(() => openBufferFeed(buffer))
const lookup = await openMessageLookup(buffer)

host.serve(openStoredHistory(reader, lookup, commits), {
  onFailure(err, method) {
    if (err instanceof StorageUnavailableError) log.warn({ err, method }, 'history.call_waits')
    else log.error({ err, method }, 'history.call_failed')
  },
  async onClose() {
    commits.end()
    await reader.close()
    await lookup.close()
  },
})
