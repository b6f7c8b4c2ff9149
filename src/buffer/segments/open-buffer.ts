/**
 * The buffer as main opens it: starts the writer thread and speaks with it. Everything on disk is the writer's.
 */
import assert from 'node:assert'
import { Worker } from 'node:worker_threads'
import { type LogSettings, openLog } from '../../log.ts'
import type { Appended, Backlog, BufferStatus, OpenBuffer } from '../buffer.ts'
import { FrameAppender } from './appender.ts'
import type { FromWriter, SegmentsSpec, ToWriter, WriterData } from './protocol.ts'
import { Scrubber } from './scrubber.ts'

export interface SegmentWriterDeps {
  log: LogSettings
  onFatal(error: Error): void
}

type Response = Extract<FromWriter, { kind: 'response' }>['value']

/** Rejects when the buffer on disk cannot be opened. */
export async function openSegmentBuffer(spec: SegmentsSpec, deps: SegmentWriterDeps): Promise<OpenBuffer> {
  const { worker, status } = await startWriter({ spec, log: deps.log })
  const scrubber = new Scrubber({ spec, log: deps.log }, openLog(deps.log, 'buffer'))
  scrubber.start()
  return new WriterProxy(worker, status, scrubber, deps.onFatal)
}

class WriterProxy implements OpenBuffer {
  readonly appender: FrameAppender
  readonly #worker: Worker
  readonly #scrubber: Scrubber
  readonly #onFatal: (error: Error) => void
  #status: BufferStatus
  /** In the order they asked. */
  readonly #callers: { resolve(value: Response): void; reject(error: Error): void }[] = []
  readonly #ended: Promise<void>
  #end = () => {}
  #death: Error | null = null
  #heardAt = performance.now()
  #isClosed = false

  constructor(worker: Worker, status: BufferStatus, scrubber: Scrubber, onFatal: (error: Error) => void) {
    this.#worker = worker
    this.#scrubber = scrubber
    this.#status = status
    this.#onFatal = onFatal
    this.#ended = new Promise((resolve) => {
      this.#end = resolve
    })
    this.appender = new FrameAppender(
      (frame) => worker.postMessage({ kind: 'frame', frame } satisfies ToWriter, [frame.buffer]),
      async (pipeId, idempotency) =>
        (await this.#ask({ kind: 'find_repeat', pipeId, idempotency })) as Appended | 'reused' | null,
    )
    this.appender.setUnavailable(status.unavailableReason)
    worker.on('message', (message: FromWriter) => this.#receive(message))
    worker.on('error', (error) => this.#fail(error))
    worker.on('exit', (code) => {
      if (this.#isClosed) this.#end()
      else this.#fail(new Error(`the buffer's writer thread ended with code ${code}`))
    })
  }

  async headSeq(): Promise<number> {
    return (await this.#ask({ kind: 'head' })) as number
  }

  silentMs(): number {
    return this.#isClosed ? 0 : performance.now() - this.#heardAt
  }

  async status(): Promise<BufferStatus> {
    return this.#status
  }

  async appended(): Promise<Map<string, Backlog>> {
    return (await this.#ask({ kind: 'appended' })) as Map<string, Backlog>
  }

  async close(): Promise<void> {
    await this.#scrubber.close()
    if (this.#death === null) await Promise.race([this.appender.drain(), this.#ended])
    if (this.#death === null && !this.#isClosed)
      this.#worker.postMessage({ kind: 'close' } satisfies ToWriter)
    await this.#ended
  }

  #ask(question: ToWriter): Promise<Response> {
    if (this.#death !== null) return Promise.reject(this.#death)
    return new Promise((resolve, reject) => {
      this.#callers.push({ resolve, reject })
      this.#worker.postMessage(question)
    })
  }

  #receive(message: FromWriter): void {
    if (this.#death !== null) return
    this.#heardAt = performance.now()
    switch (message.kind) {
      case 'committed':
      case 'failed':
        this.appender.settle(message)
        break
      case 'status':
        this.#status = message.status
        this.appender.setUnavailable(message.status.unavailableReason)
        break
      case 'response':
        this.#callers.shift()?.resolve(message.value)
        break
      case 'closed':
        this.#isClosed = true
    }
  }

  #fail(error: Error): void {
    if (this.#death !== null || this.#isClosed) return
    this.#death = error
    // What is in flight stays unsettled: nobody knows whether it is kept.
    this.appender.setUnavailable('write_failed')
    for (const { reject } of this.#callers.splice(0)) reject(error)
    this.#end()
    this.#onFatal(error)
  }
}

async function startWriter(workerData: WriterData): Promise<{ worker: Worker; status: BufferStatus }> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const worker = new Worker(new URL(`./writer-thread.${extension}`, import.meta.url), {
    name: 'buffer-writer',
    workerData,
  })
  const opened = await firstMessage(worker)
  assert(opened.kind === 'opened', 'the writer says first that it is open')
  return { worker, status: opened.status }
}

function firstMessage(worker: Worker): Promise<FromWriter> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number) =>
      reject(new Error(`the buffer's writer thread ended with code ${code} when it was started`))
    worker.once('error', reject)
    worker.once('exit', onExit)
    worker.once('message', (message: FromWriter) => {
      worker.off('error', reject)
      worker.off('exit', onExit)
      resolve(message)
    })
  })
}
