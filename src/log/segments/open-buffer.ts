/** The buffer as main uses it: starts the writer thread and calls it. Only the writer touches the files. */
import { MessageChannel } from 'node:worker_threads'
import { type LogSettings, openLog } from '../../platform/log.ts'
import { type Caller, callsOver, type Handlers } from '../../platform/thread-calls.ts'
import { beatEveryMs, Thread, threadEntry } from '../../platform/threads.ts'
import type {
  Appender,
  AppenderPort,
  Backlog,
  BufferStatus,
  OpenBuffer,
  SharedAppends,
  WriterHistograms,
} from '../buffer.ts'
import { WriterObserved } from '../writer-observed.ts'
import { FrameAppender } from './appender.ts'
import type { AppenderCalls, SegmentsSpec, WriterCalls, WriterData, WriterReports } from './protocol.ts'
import { Scrubber } from './scrubber.ts'

export interface SegmentWriterDeps {
  log: LogSettings
  onFatal(error: Error): void
}

/** Rejects when the buffer on disk cannot be opened. */
export async function openSegmentBuffer(spec: SegmentsSpec, deps: SegmentWriterDeps): Promise<OpenBuffer> {
  const buffer = new SegmentBuffer(spec, deps)
  await buffer.opened
  return buffer
}

class SegmentBuffer implements OpenBuffer {
  readonly opened: Promise<void>
  readonly appender: FrameAppender
  readonly #thread: Thread<WriterCalls, WriterReports>
  readonly #scrubber: Scrubber
  readonly #observed = new WriterObserved()
  #status: BufferStatus | null = null
  #onSharedAppends: (appends: readonly SharedAppends[]) => void = () => {}
  #isClosed = false

  constructor(spec: SegmentsSpec, { log, onFatal }: SegmentWriterDeps) {
    this.#scrubber = new Scrubber({ spec, log }, openLog(log, 'buffer'))
    this.#thread = new Thread({
      name: 'buffer-writer',
      entry: threadEntry(import.meta.url, './writer-thread'),
      data: { spec, log, observed: this.#observed.memory } satisfies WriterData,
      holdsProcess: true,
      host: this.#handlers(),
    })
    this.appender = appenderOver(this.#thread)
    this.opened = this.#thread.ready.then(() => {
      this.#scrubber.start()
      void this.#thread.ended.then(({ error }) => {
        if (this.#isClosed) return
        // Appends in flight stay unsettled, because it is not known whether they were stored.
        this.appender.setUnavailable('write_failed')
        onFatal(error)
      })
    })
  }

  shareAppender(): AppenderPort {
    const { port1, port2 } = new MessageChannel()
    // See openPortAppender in stores/open-log.ts.
    port1.postMessage({ kind: 'segments' })
    this.#thread.tell('share', [port1], [port1])
    return port2
  }

  onSharedAppends(listener: (appends: readonly SharedAppends[]) => void): void {
    this.#onSharedAppends = listener
  }

  headSeq(): Promise<number> {
    return this.#thread.call('headSeq', [])
  }

  silentMs(): number {
    return this.#thread.silentTicks * beatEveryMs
  }

  async status(): Promise<BufferStatus> {
    return this.#status!
  }

  histograms(): WriterHistograms {
    return this.#observed.histograms()
  }

  appended(): Promise<Map<string, Backlog>> {
    return this.#thread.call('appended', [])
  }

  async close(): Promise<void> {
    await this.#scrubber.close()
    await Promise.race([this.appender.drain(), this.#thread.ended])
    await this.#thread.close()
  }

  #handlers(): Handlers<WriterReports> {
    return {
      settled: (result) => this.appender.settle(result),
      status: (status) => {
        this.#status = status
        this.appender.setUnavailable(status.unavailableReason)
      },
      sharedAppends: (appends) => this.#onSharedAppends(appends),
      closed: () => {
        this.#isClosed = true
      },
    }
  }
}

/** Runs in the thread that received the port of `OpenBuffer.shareAppender`. */
export function openPortAppender(port: AppenderPort): Appender {
  const writer = callsOver<WriterCalls, AppenderCalls>('buffer-writer', port)
  const appender = appenderOver(writer)
  writer.serve({
    settled: (result) => appender.settle(result),
    status: ({ unavailableReason }) => appender.setUnavailable(unavailableReason),
  })
  return appender
}

function appenderOver(writer: Caller<WriterCalls>): FrameAppender {
  return new FrameAppender(
    (frame) => writer.tell('frame', [frame], [frame.buffer]),
    (pipeId, idempotency) => writer.call('findRepeat', [pipeId, idempotency]),
  )
}
