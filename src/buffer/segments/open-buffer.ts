/**
 * The buffer as main opens it: starts the writer thread and speaks with it. Everything on disk is the writer's.
 */
import assert from 'node:assert'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import type { LogSettings } from '../../log.ts'
import type { Appender, PipePosition } from '../buffer.ts'
import { openAppender } from './appender.ts'
import type { BufferStatus, FromWriter, ToWriter, WriterData, WriterSettings } from './writer-protocol.ts'

export type { BufferStatus } from './writer-protocol.ts'

export interface BufferOptions extends WriterSettings {
  /** Where readers put damaged messages; the writer does not touch it. */
  quarantineDir: string
  log: LogSettings
  /**
   * The writer has died: nothing is appended any more, and what was not answered may or may not be kept. The
   * process must end.
   */
  onFatal(error: Error): void
}

export interface BufferHandle {
  appender: Appender
  /** To be transferred to the delivery thread, for openBufferFeed. */
  feedPort: MessagePort
  /** As of at most a second ago. */
  status(): BufferStatus
  /** The heads of all pipes that the buffer knows. */
  pipeTotals(): Promise<Map<string, PipePosition>>
  /** Acknowledged messages of earlier runs that were not found on disk; 0 unless the disk lost something. */
  missingAcknowledged: number
  /** Refuses appends, answers those under way, then checkpoints and closes. */
  close(): Promise<void>
}

/** Rejects when the buffer on disk cannot be opened. */
export async function openBuffer(options: BufferOptions): Promise<BufferHandle> {
  const { port1: writerPort, port2: feedPort } = new MessageChannel()
  const { worker, opened } = await startWriter(options, writerPort)
  const tell = (message: ToWriter, transfer: ArrayBuffer[] = []) => worker.postMessage(message, transfer)
  const appender = openAppender(opened.headSeq, (frame) => tell({ kind: 'frame', frame }, [frame.buffer]))
  let { status } = opened
  appender.refuse(status.refusing)
  const totalsAsked: ((totals: Map<string, PipePosition>) => void)[] = []
  let isDead = false
  let isClosed = false
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })

  function die(error: Error): void {
    if (isDead || isClosed) return
    isDead = true
    // What is in flight stays unanswered: nobody knows whether it is kept.
    appender.refuse('write_failed')
    end()
    options.onFatal(error)
  }

  worker.on('message', (message: FromWriter) => {
    if (isDead) return
    if (message.kind === 'committed' || message.kind === 'failed') appender.answered(message)
    else if (message.kind === 'status') {
      status = message.status
      appender.refuse(status.refusing)
    } else if (message.kind === 'totals') totalsAsked.shift()?.(message.totals)
    else if (message.kind === 'closed') isClosed = true
  })
  worker.on('error', die)
  worker.on('exit', (code) => {
    if (isClosed) end()
    else die(new Error(`the buffer's writer thread ended with code ${code}`))
  })

  return {
    appender,
    feedPort,
    status: () => status,
    pipeTotals() {
      tell({ kind: 'totals' })
      return new Promise((resolve) => totalsAsked.push(resolve))
    },
    missingAcknowledged: opened.missingAcknowledged,
    async close() {
      if (!isDead) await Promise.race([appender.drain(), ended])
      if (!isDead && !isClosed) tell({ kind: 'close' })
      await ended
    },
  }
}

async function startWriter(
  options: BufferOptions,
  feedPort: MessagePort,
): Promise<{ worker: Worker; opened: Extract<FromWriter, { kind: 'opened' }> }> {
  const { dir, maxBytes, minFreeBytes, segmentMaxBytes, segmentMaxSeconds } = options
  const { undeliveredHours, deliveredHours, deliveredMaxBytes, log } = options
  const settings: WriterSettings = {
    ...{ dir, maxBytes, minFreeBytes, segmentMaxBytes, segmentMaxSeconds },
    ...{ undeliveredHours, deliveredHours, deliveredMaxBytes },
  }
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const workerData: WriterData = { settings, log, feedPort }
  const worker = new Worker(new URL(`./writer-thread.${extension}`, import.meta.url), {
    name: 'buffer-writer',
    workerData,
    transferList: [feedPort],
  })
  const opened = await firstWord(worker)
  assert(opened.kind === 'opened', 'the writer says first that it is open')
  return { worker, opened }
}

function firstWord(worker: Worker): Promise<FromWriter> {
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
