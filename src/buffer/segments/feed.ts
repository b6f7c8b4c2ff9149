/** Delivery's end of the feed: see BufferFeed. Runs in the delivery thread, on the port that openBuffer gave out. */
import type { MessagePort } from 'node:worker_threads'
import type { BufferFeed } from '../buffer.ts'
import type { FeedEvent, FloorsReported } from './writer-protocol.ts'

/** Events from before the first listener are kept: the port starts with it. */
export function openBufferFeed(port: MessagePort): BufferFeed {
  const onCommitted: Parameters<BufferFeed['onCommitted']>[0][] = []
  const onDropped: Parameters<BufferFeed['onDropped']>[0][] = []
  const start = () => {
    if (port.listenerCount('message') > 0) return
    port.on('message', (event: FeedEvent) => {
      if (event.kind === 'committed') for (const listener of onCommitted) listener(event.pipes)
      else for (const listener of onDropped) listener()
    })
  }
  return {
    onCommitted(listener) {
      onCommitted.push(listener)
      start()
    },
    onDropped(listener) {
      onDropped.push(listener)
      start()
    },
    reportFloors(asOfSeq, floors) {
      const report: FloorsReported = { asOfSeq, floors }
      port.postMessage(report)
    },
  }
}
