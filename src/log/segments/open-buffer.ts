/**
 * The buffer as main opens it: starts the writer thread and speaks with it. Everything on disk is the writer's.
 */
import assert from 'node:assert'
import { MessageChannel, Worker } from 'node:worker_threads'
import { type LogSettings, openLog } from '../../platform/log.ts'
import { threadEntry } from '../../platform/threads.ts'
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
import type { FromWriter, SegmentsSpec, ToWriter, WriterData } from './protocol.ts'
import { Scrubber } from './scrubber.ts'
import { WriterClient } from './writer-client.ts'

export interface SegmentWriterDeps {
  log: LogSettings
  onFatal(error: Error): void
}

/** Rejects when the buffer on disk cannot be opened. */
export async function openSegmentBuffer(spec: SegmentsSpec, deps: SegmentWriterDeps): Promise<OpenBuffer> {
  const observed = new WriterObserved()
  const { worker, status } = await startWriter({ spec, log: deps.log, observed: observed.memory })
  const scrubber = new Scrubber({ spec, log: deps.log }, openLog(deps.log, 'buffer'))
  scrubber.start()
  return new WriterProxy(worker, status, { scrubber, observed }, deps.onFatal)
}

class WriterProxy implements OpenBuffer {
  readonly #client: WriterClient
  readonly #worker: Worker
  readonly #scrubber: Scrubber
  readonly #observed: WriterObserved
  readonly #onFatal: (error: Error) => void
  #status: BufferStatus
  #onSharedAppends: (appends: readonly SharedAppends[]) => void = () => {}
  readonly #ended: Promise<void>
  #end = () => {}
  #death: Error | null = null
  #heardAt = performance.now()
  #isClosed = false

  constructor(
    worker: Worker,
    status: BufferStatus,
    { scrubber, observed }: { scrubber: Scrubber; observed: WriterObserved },
    onFatal: (error: Error) => void,
  ) {
    this.#worker = worker
    this.#scrubber = scrubber
    this.#observed = observed
    this.#status = status
    this.#onFatal = onFatal
    this.#ended = new Promise((resolve) => {
      this.#end = resolve
    })
    this.#client = new WriterClient(
      (message, transfer) => worker.postMessage(message, transfer),
      status.unavailableReason,
    )
    worker.on('message', (message: FromWriter) => this.#receive(message))
    worker.on('error', (error) => this.#fail(error))
    worker.on('exit', (code) => {
      if (this.#isClosed) this.#end()
      else this.#fail(new Error(`the buffer's writer thread ended with code ${code}`))
    })
  }

  get appender(): Appender {
    return this.#client.appender
  }

  shareAppender(): AppenderPort {
    const { port1, port2 } = new MessageChannel()
    // See openPortAppender.
    port1.postMessage({ kind: 'segments' })
    this.#worker.postMessage({ kind: 'share', port: port1 } satisfies ToWriter, [port1])
    return port2
  }

  onSharedAppends(listener: (appends: readonly SharedAppends[]) => void): void {
    this.#onSharedAppends = listener
  }

  async headSeq(): Promise<number> {
    return (await this.#client.ask({ kind: 'head' })) as number
  }

  silentMs(): number {
    return this.#isClosed ? 0 : performance.now() - this.#heardAt
  }

  async status(): Promise<BufferStatus> {
    return this.#status
  }

  histograms(): WriterHistograms {
    return this.#observed.histograms()
  }

  async appended(): Promise<Map<string, Backlog>> {
    return (await this.#client.ask({ kind: 'appended' })) as Map<string, Backlog>
  }

  async close(): Promise<void> {
    await this.#scrubber.close()
    if (this.#death === null) await Promise.race([this.appender.drain(), this.#ended])
    if (this.#death === null && !this.#isClosed)
      this.#worker.postMessage({ kind: 'close' } satisfies ToWriter)
    await this.#ended
  }

  #receive(message: FromWriter): void {
    if (this.#death !== null) return
    this.#heardAt = performance.now()
    if (message.kind === 'shared_appends') this.#onSharedAppends(message.appends)
    else if (message.kind === 'closed') this.#isClosed = true
    else {
      if (message.kind === 'status') this.#status = message.status
      this.#client.receive(message)
    }
  }

  #fail(error: Error): void {
    if (this.#death !== null || this.#isClosed) return
    this.#death = error
    this.#client.fail(error)
    this.#end()
    this.#onFatal(error)
  }
}

async function startWriter(workerData: WriterData): Promise<{ worker: Worker; status: BufferStatus }> {
  const worker = new Worker(threadEntry(import.meta.url, './writer-thread'), {
    name: 'buffer-writer',
    workerData,
  })
  return { worker, status: await untilOpened(worker) }
}

function untilOpened(worker: Worker): Promise<BufferStatus> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number) =>
      reject(new Error(`the buffer's writer thread ended with code ${code} when it was started`))
    const onMessage = (message: FromWriter) => {
      // Opening can make room, with signs of life.
      if (message.kind === 'beat') return
      assert(message.kind === 'opened', 'the writer says first that it is open')
      worker.off('error', reject)
      worker.off('exit', onExit)
      worker.off('message', onMessage)
      resolve(message.status)
    }
    worker.once('error', reject)
    worker.once('exit', onExit)
    worker.on('message', onMessage)
  })
}
