/** An ingest thread: listens on the shared address and handles ingest requests from the first byte to the 202. */
import { IngestServer } from '../../api/ingest-threads/ingest-server.ts'
import type { IngestCalls, IngestReports, IngestThreadData } from '../../api/ingest-threads/protocol.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import { openPortAppender } from '../../stores/open-log.ts'

const host = new ThreadHost<IngestThreadData, IngestCalls, IngestReports>()
const server = new IngestServer(host, host.data, await openPortAppender(host.data.appender))

// The thread stops working and waits until main ends the process.
process.on('uncaughtException', (error) => {
  host.tell('failed', [error instanceof Error ? (error.stack ?? error.message) : String(error)])
  server.closeSockets()
})
host.serve(server)
