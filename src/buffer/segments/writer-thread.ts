/**
 * The writer thread: messages from main and from delivery, one at a time, to the writer.
 *
 *   main ──frame──▶ writer thread ──committed──▶ main          (the answer first: a client waits for it)
 *                          │ committed, dropped
 *                          ▼
 *                      delivery ──floors──▶ writer thread
 *
 * An error that the writer throws ends the thread: main sees it as the worker's `error` and ends the process.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { openLog } from '../../log.ts'
import type { Frame } from '../frame.ts'
import { openBufferWriter } from './buffer-writer.ts'
import { floorReport } from './retention.ts'
import type { FeedEvent, FloorsReported, FromWriter, ToWriter, WriterData } from './writer-protocol.ts'

const maintainEveryMs = 1_000

function run(port: NonNullable<typeof parentPort>, data: WriterData): void {
  const { feedPort } = data
  const tell = (message: FromWriter, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)
  const feed = (event: FeedEvent) => feedPort.postMessage(event)
  const log = openLog(data.log, 'buffer-writer')
  const writer = openBufferWriter(data.settings, log, () => feed({ kind: 'dropped' }))
  let { refusing } = writer

  /** Main refuses by itself while it knows that the writer would. */
  function tellStatus(): void {
    const status = writer.status()
    refusing = status.refusing
    tell({ kind: 'status', status })
  }

  function commit(frame: Frame): void {
    const result = writer.write(frame)
    if (result.ok) {
      const { firstSeq, repeated, pipes } = result.committed
      tell(
        {
          kind: 'committed',
          buffer: frame.buffer,
          firstSeq,
          headSeq: writer.headSeq,
          repeated: repeated.map(({ index, first: { seq, msgId, recordCount } }) => {
            return { index, seq, msgId, recordCount }
          }),
        },
        [frame.buffer],
      )
      if (pipes.length > 0) feed({ kind: 'committed', pipes })
      writer.tidy()
    } else {
      tell({ kind: 'failed', buffer: frame.buffer, reason: result.reason }, [frame.buffer])
    }
    if (writer.refusing !== refusing) tellStatus()
  }

  const maintenance = setInterval(() => {
    writer.maintain()
    tellStatus()
  }, maintainEveryMs)

  port.on('message', (message: ToWriter) => {
    if (message.kind === 'frame') commit(message.frame)
    else if (message.kind === 'totals') tell({ kind: 'totals', totals: writer.totals() })
    else {
      clearInterval(maintenance)
      writer.close()
      feedPort.close()
      tell({ kind: 'closed' })
      port.close()
    }
  })
  feedPort.on('message', ({ asOfSeq, floors }: FloorsReported) => {
    writer.setFloors(floorReport(asOfSeq, floors))
  })
  tell({
    kind: 'opened',
    headSeq: writer.headSeq,
    missingAcknowledged: writer.missingAcknowledged,
    status: writer.status(),
  })
}

if (parentPort !== null) run(parentPort, workerData as WriterData)
