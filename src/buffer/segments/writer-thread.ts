/**
 * The writer thread: messages from main and from the feed, one at a time, to the writer. Each turn of the event loop
 * handles one message of main's, and one slice of a compaction or a salvage while there is one: so a frame waits for one slice at
 * most. (Handled as they arrive, frames that follow each other closely would keep out everything else: Node takes up
 * to 1,000 messages from a port before it looks at another port, or a timer.)
 *
 *   main ──frame──▶ writer thread ──committed──▶ main          (first: a client waits for it)
 *                          │ committed, dropped, report_wanted
 *                          ▼
 *                        feed ──watermarks, pipe_deleted, segment_damaged──▶ writer thread
 *
 * An error that the writer throws ends the thread: main sees it as the worker's `error` and ends the process.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { openLog } from '../../log.ts'
import { describeFatalErrors } from '../../storage-error.ts'
import type { Frame } from '../frame.ts'
import { openBufferWriter } from './buffer-writer.ts'
import { FeedChannel } from './feed.ts'
import type { SkippedAppend } from './frame-commit.ts'
import type { FromWriter, SkippedResult, ToWriter, WriterData } from './protocol.ts'

const housekeepingEveryMs = 1_000

function run(port: NonNullable<typeof parentPort>, data: WriterData): void {
  const post = (message: FromWriter, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)
  const feed = new FeedChannel(data.spec.channel)
  const log = openLog(data.log, 'buffer-writer')
  const writer = openBufferWriter(data.spec, log, {
    onDropped: () => feed.post({ kind: 'dropped' }),
    onReportWanted: () => feed.post({ kind: 'report_wanted' }),
  })
  const waiting: ToWriter[] = []
  let isTurnScheduled = false
  let isClosed = false

  function commit(frame: Frame): void {
    const before = writer.unavailableReason
    const result = writer.write(frame)
    const { buffer } = frame
    if (result.ok) {
      const { firstSeq, skipped, pipes } = result.committed
      post({ kind: 'committed', buffer, firstSeq, skipped: skipped.map(toResult) }, [buffer])
      if (pipes.length > 0) feed.post({ kind: 'committed', pipes })
      writer.afterCommit()
    } else {
      post({ kind: 'failed', buffer, reason: result.reason }, [buffer])
    }
    // Main rejects by itself while it knows that the writer would.
    if (writer.unavailableReason !== before) post({ kind: 'status', status: writer.status() })
  }

  function scheduleTurn(): void {
    if (isTurnScheduled || isClosed || (waiting.length === 0 && !writer.isRewriting)) return
    isTurnScheduled = true
    setImmediate(() => {
      isTurnScheduled = false
      const message = waiting.shift()
      if (message !== undefined) handle(message)
      if (!isClosed) writer.rewriteSlice()
      scheduleTurn()
    })
  }

  const housekeeping = setInterval(() => {
    writer.housekeep()
    post({ kind: 'status', status: writer.status() })
    scheduleTurn()
  }, housekeepingEveryMs)

  function close(): void {
    isClosed = true
    clearInterval(housekeeping)
    writer.close()
    feed.close()
    post({ kind: 'closed' })
    port.close()
  }

  function handle(message: ToWriter): void {
    switch (message.kind) {
      case 'frame':
        commit(message.frame)
        break
      case 'head':
        post({ kind: 'response', value: writer.headSeq })
        break
      case 'appended':
        post({ kind: 'response', value: writer.appended() })
        break
      case 'find_repeat': {
        const { pipeId, idempotency } = message
        post({ kind: 'response', value: writer.findRepeat(pipeId, idempotency) })
        break
      }
      case 'close':
        close()
    }
  }

  port.on('message', (message: ToWriter) => {
    waiting.push(message)
    scheduleTurn()
  })
  feed.listen((message) => {
    if (message.kind === 'watermarks') writer.reportLowWatermarks(message.watermarks)
    else if (message.kind === 'pipe_deleted') writer.pipeDeleted(message.pipeId)
    else if (message.kind === 'segment_damaged') {
      writer.segmentDamaged(message, message.error)
      scheduleTurn()
    }
  })
  post({ kind: 'opened', status: writer.status() })
  scheduleTurn()
}

function toResult(append: SkippedAppend): SkippedResult {
  if (append.kind !== 'repeated') return { index: append.index, kind: append.kind }
  const { seq, msgId, recordCount } = append.first
  return { index: append.index, kind: 'repeated', seq, msgId, recordCount }
}

if (parentPort !== null) {
  const data = workerData as WriterData
  describeFatalErrors('using the buffer in', data.spec.dir)
  run(parentPort, data)
}
