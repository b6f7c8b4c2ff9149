/** The writer thread: `open-buffer.ts` starts it. */
import { openLog } from '../../platform/log.ts'
import { describeFatalErrors } from '../../platform/storage-error.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import { WriterObserved } from '../group-commit.ts'
import { openBufferWriter } from './buffer-writer.ts'
import { openIndexThreads } from './index-threads.ts'
import type { WriterCalls, WriterData, WriterReports } from './protocol.ts'
import { FeedChannel } from './reader.ts'
import { WriterQueue } from './writer-queue.ts'

const host = new ThreadHost<WriterData, WriterCalls, WriterReports>()
const { spec, log, observed: memory } = host.data
describeFatalErrors('using the buffer in', spec.dir)
const feed = new FeedChannel(spec.channel)
const observed = new WriterObserved(memory)
const events = {
  onCommitted: observed.committed,
  onDropped: () => feed.post({ kind: 'dropped' }),
  onErased: () => feed.post({ kind: 'erased' }),
  onReportWanted: () => feed.post({ kind: 'report_wanted' }),
  onSlice: () => host.beat(),
}
const writer = openBufferWriter(spec, openLog(log, 'buffer-writer'), events, openIndexThreads(spec.dir))
const queue = new WriterQueue(host, writer, feed, spec.replica)
host.tell('status', [queue.status])
host.serve(queue.ofMain(), { onClose: () => queue.close() })
