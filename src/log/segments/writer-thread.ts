/**
 * The writer thread: messages from main, from other threads that append and from the feed to the writer. Each turn of the
 * event loop handles one message of a thread, or the frames of several that wait (one transaction), and one slice of a
 * compaction or a salvage while there is one: so a frame waits for one slice at most. (Handled as they arrive, frames that follow each other closely would keep out everything else: Node takes up
 * to 1,000 messages from a port before it looks at another port, or a timer.)
 *
 *   main, others ──frame──▶ writer thread ──committed──▶ whose it was   (first: a client waits for it)
 *                          │ committed, dropped, report_wanted
 *                          ▼
 *                        feed ──watermarks, pipe_deleted, segment_damaged──▶ writer thread
 *
 * An error that the writer throws ends the thread: main sees it as the worker's `error` and ends the process.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { openLog } from '../../platform/log.ts'
import { describeFatalErrors } from '../../platform/storage-error.ts'
import type { Frame } from '../frame.ts'
import { WriterObserved } from '../writer-observed.ts'
import { openBufferWriter } from './buffer-writer.ts'
import { FeedChannel } from './feed.ts'
import type { SkippedAppend } from './frame-commit.ts'
import { countAppends, joinedMaxBytes, joinFrames, splitCommitted } from './joined-frames.ts'
import type { FromWriter, SkippedResult, ToWriter, WriterData } from './protocol.ts'

const housekeepingEveryMs = 1_000

type Port = NonNullable<typeof parentPort>

/** A thread that appends. */
interface Client {
  post(message: FromWriter, transfer?: ArrayBuffer[]): void
  /** Which of the others it is, by the order of their ports: what they append is reported to main. Null: main itself. */
  other: number | null
}

interface Request {
  message: ToWriter
  client: Client
}

type FrameRequest = Request & { message: Extract<ToWriter, { kind: 'frame' }> }

function run(port: Port, data: WriterData): void {
  const post = (message: FromWriter) => port.postMessage(message)
  const ports: Port[] = []
  const clients: Client[] = []
  const feed = new FeedChannel(data.spec.channel)
  const log = openLog(data.log, 'buffer-writer')
  const observed = new WriterObserved(data.observed)
  const writer = openBufferWriter(data.spec, log, {
    onCommitted: (frame, commitMs) => observed.committed(frame, commitMs),
    onDropped: () => feed.post({ kind: 'dropped' }),
    onReportWanted: () => feed.post({ kind: 'report_wanted' }),
    onSlice: () => post({ kind: 'beat' }),
  })
  const waiting: Request[] = []
  let others = 0
  let isTurnScheduled = false
  let isClosed = false

  function listen(to: Port, other: number | null): Client {
    const client: Client = { other, post: (message, transfer = []) => to.postMessage(message, transfer) }
    ports.push(to)
    clients.push(client)
    to.on('message', (message: ToWriter) => {
      waiting.push({ message, client })
      scheduleTurn()
    })
    return client
  }

  function commit(requests: readonly [FrameRequest, ...FrameRequest[]]): void {
    const before = writer.unavailableReason
    const [first, ...others] = requests
    const frames: [Frame, ...Frame[]] = [first.message.frame, ...others.map(({ message }) => message.frame)]
    const result = writer.write(joinFrames(frames))
    if (result.ok) {
      const parts = splitCommitted(frames, result.committed)
      // Main first: whoever asks for the usage after a 202 finds that request counted.
      const appends = requests.flatMap(({ client, message }, index) =>
        client.other === null ? [] : countAppends(message.frame, parts[index]!.skipped, client.other),
      )
      if (appends.length > 0) post({ kind: 'shared_appends', appends })
      for (const [index, { client, message }] of requests.entries()) {
        const { buffer } = message.frame
        const { firstSeq, skipped } = parts[index]!
        client.post({ kind: 'committed', buffer, firstSeq, skipped: skipped.map(toResult) }, [buffer])
      }
      const { pipes } = result.committed
      if (pipes.length > 0) feed.post({ kind: 'committed', pipes })
      writer.afterCommit()
    } else if (others.length > 0 && writer.unavailableReason === null) {
      // There is no room for all of them: each is judged by itself, as if it had come alone.
      for (const request of requests) commit([request])
    } else {
      for (const { client, message } of requests) {
        const { buffer } = message.frame
        client.post({ kind: 'failed', buffer, reason: result.reason }, [buffer])
      }
    }
    // They reject by themselves while they know that the writer would.
    if (writer.unavailableReason !== before) postStatus()
  }

  function postStatus(): void {
    const status = writer.status()
    for (const client of clients) client.post({ kind: 'status', status })
  }

  function scheduleTurn(): void {
    if (isTurnScheduled || isClosed || (waiting.length === 0 && !writer.isRewriting)) return
    isTurnScheduled = true
    setImmediate(() => {
      isTurnScheduled = false
      const request = waiting.shift()
      if (request !== undefined) handle(request)
      if (!isClosed) writer.rewriteSlice()
      scheduleTurn()
    })
  }

  const housekeeping = setInterval(() => {
    writer.housekeep()
    postStatus()
    scheduleTurn()
  }, housekeepingEveryMs)

  function close(): void {
    isClosed = true
    clearInterval(housekeeping)
    writer.close()
    feed.close()
    post({ kind: 'closed' })
    for (const one of ports) one.close()
  }

  function handle(request: Request): void {
    const { message, client } = request
    switch (message.kind) {
      case 'frame':
        commit([{ ...request, message }, ...takeFrames(waiting, joinedMaxBytes - message.frame.length)])
        break
      case 'head':
        client.post({ kind: 'response', value: writer.headSeq })
        break
      case 'appended':
        client.post({ kind: 'response', value: writer.appended() })
        break
      case 'find_repeat': {
        const { pipeId, idempotency } = message
        client.post({ kind: 'response', value: writer.findRepeat(pipeId, idempotency) })
        break
      }
      case 'share':
        listen(message.port, others++).post({ kind: 'status', status: writer.status() })
        break
      case 'close':
        close()
    }
  }

  listen(port, null)
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

/** Those at the head of the line, in their order, as far as their bytes go. */
function takeFrames(waiting: Request[], maxBytes: number): FrameRequest[] {
  const taken: FrameRequest[] = []
  let bytes = 0
  for (;;) {
    const next = waiting[0]
    if (next?.message.kind !== 'frame') return taken
    const { message } = next
    bytes += message.frame.length
    if (bytes > maxBytes) return taken
    taken.push({ ...next, message })
    waiting.shift()
  }
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
