/**
 * The feed between the writer and whoever listens: see BufferFeed. A BroadcastChannel, so that any thread can join it
 * by the name in the spec. What was said before a listener joined is not repeated: listeners join first, then read.
 */
import { BroadcastChannel } from 'node:worker_threads'
import type { BufferFeed, LowWatermark } from '../buffer.ts'
import type { SegmentsSpec } from './protocol.ts'

export type FeedMessage =
  | { kind: 'committed'; pipes: [pipeId: string, seq: number][] }
  | { kind: 'dropped' }
  | { kind: 'report_wanted' }
  | { kind: 'watermarks'; watermarks: readonly LowWatermark[] }
  | { kind: 'pipe_deleted'; pipeId: string }
  | { kind: 'segment_damaged'; firstSeq: number; generation: number; error: string }

export function openSegmentFeed({ channel }: Pick<SegmentsSpec, 'channel'>): BufferFeed {
  const feed = new FeedChannel(channel)
  const onCommitted: Parameters<BufferFeed['onCommitted']>[0][] = []
  const onDropped: (() => void)[] = []
  const onReportWanted: (() => void)[] = []
  feed.listen((message) => {
    if (message.kind === 'committed') for (const listener of onCommitted) listener(message.pipes)
    else if (message.kind === 'dropped') for (const listener of onDropped) listener()
    else if (message.kind === 'report_wanted') for (const listener of onReportWanted) listener()
  })
  return {
    onCommitted: (listener) => void onCommitted.push(listener),
    onDropped: (listener) => void onDropped.push(listener),
    onReportWanted: (listener) => void onReportWanted.push(listener),
    reportLowWatermarks: (watermarks) => feed.post({ kind: 'watermarks', watermarks }),
    pipeDeleted: (pipeId) => feed.post({ kind: 'pipe_deleted', pipeId }),
    close: () => feed.close(),
  }
}

/** The channel itself, typed. The writer and every opened feed have one; nobody gets their own messages. */
export class FeedChannel {
  readonly #channel: BroadcastChannel

  constructor(name: string) {
    this.#channel = new BroadcastChannel(name)
    // Listening must not keep a thread alive that has nothing else to do.
    this.#channel.unref()
  }

  listen(listener: (message: FeedMessage) => void): void {
    this.#channel.onmessage = (event) => listener((event as { data: FeedMessage }).data)
  }

  post(message: FeedMessage): void {
    this.#channel.postMessage(message)
  }

  close(): void {
    this.#channel.close()
  }
}
