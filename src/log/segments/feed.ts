/**
 * The feed between the writer and its listeners: see BufferFeed. It is a BroadcastChannel, so that any thread can join
 * by the name in the spec. Earlier messages are not repeated for a new listener: join first, then read.
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

/** The typed channel. The writer and every opened feed have one; none receives its own messages. */
export class FeedChannel {
  readonly #channel: BroadcastChannel

  constructor(name: string) {
    this.#channel = new BroadcastChannel(name)
    // Listening alone must not keep a thread alive.
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
