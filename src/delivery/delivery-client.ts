/**
 * Delivery from the main thread: starts the delivery thread and puts every question to it. The thread's death is
 * reported once through `onFatal`; who waits for an answer then gets an error.
 */
import { type MessagePort, Worker } from 'node:worker_threads'
import type { DriverSettings } from '../destinations/driver.ts'
import type { LogSettings } from '../log.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryDesk } from './delivery-desk.ts'
import type { DeliveryMetrics } from './delivery-metrics.ts'
import type { DeliveryAnswer, DeliveryMethod, DeliveryThreadData } from './delivery-protocol.ts'

export interface DeliveryOptions {
  /** From the buffer; goes over to the thread. */
  feedPort: MessagePort
  bufferDir: string
  quarantineDir: string
  metadataFile: string
  sealingKey: Buffer
  driverSettings: DriverSettings
  /** Memory that all batches under way may take together. */
  maxInFlightBytes: number
  log: LogSettings
  /** The thread died: the process must end. */
  onFatal(error: Error): void
}

export interface DeliveryHandle extends Delivery {
  metrics(): Promise<DeliveryMetrics>
  /**
   * No new attempt; those under way may finish for `graceMs` (default 10 s), then they are aborted, which is not an
   * attempt. Resolves when all lane state is saved and the thread has ended.
   */
  close(graceMs?: number): Promise<void>
}

interface Pending {
  resolve(value: unknown): void
  reject(error: Error): void
}

const defaultGraceMs = 10_000
/** Beyond the grace, for aborting, saving and closing. */
const closeMarginMs = 10_000

/** Resolves when all lanes are loaded. Rejects when the thread cannot start. */
export async function openDelivery(options: DeliveryOptions): Promise<DeliveryHandle> {
  const worker = startThread(options)
  const pending = new Map<number, Pending>()
  let lastId = 0
  let isClosing = false
  let isReady = false
  let death: Error | null = null

  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  const ready = new Promise<void>((resolve, reject) => {
    worker.on('message', (message: DeliveryAnswer) => {
      if (message.kind === 'ready') {
        isReady = true
        return resolve()
      }
      const asker = pending.get(message.id)
      pending.delete(message.id)
      if (message.kind === 'answer') asker?.resolve(message.value)
      else asker?.reject(new Error(`delivery: ${message.message}`))
    })
    worker.once('error', (error: Error) => died(error))
    worker.once('exit', (code) => died(new Error(`the delivery thread ended with code ${code}`)))

    function died(error: Error): void {
      if (death !== null) return
      death = error
      for (const asker of pending.values()) asker.reject(error)
      pending.clear()
      if (!isReady) reject(error)
      else if (!isClosing) options.onFatal(error)
    }
  })

  function ask(method: DeliveryMethod, args: unknown[]): Promise<unknown> {
    if (death !== null) return Promise.reject(death)
    lastId += 1
    const id = lastId
    return new Promise((resolve, reject) => {
      pending.set(id, { resolve, reject })
      worker.postMessage({ id, method, args })
    })
  }

  await ready
  return {
    ...questions(ask),
    async close(graceMs = defaultGraceMs) {
      if (isClosing || death !== null) return await ended
      isClosing = true
      const tooLate = setTimeout(() => void worker.terminate(), graceMs + closeMarginMs)
      try {
        await ask('close', [graceMs])
      } finally {
        await ended
        clearTimeout(tooLate)
      }
    },
  }
}

function startThread(options: DeliveryOptions): Worker {
  const data: DeliveryThreadData = {
    feedPort: options.feedPort,
    bufferDir: options.bufferDir,
    quarantineDir: options.quarantineDir,
    metadataFile: options.metadataFile,
    sealingKey: Uint8Array.from(options.sealingKey),
    driverSettings: options.driverSettings,
    maxInFlightBytes: options.maxInFlightBytes,
    log: options.log,
  }
  const file = import.meta.url.endsWith('.ts') ? './delivery-thread.ts' : './delivery-thread.js'
  return new Worker(new URL(file, import.meta.url), { workerData: data, transferList: [options.feedPort] })
}

/** Each method asks the thread's desk for the same; the desk's types are the answers' types. */
function questions(ask: (method: DeliveryMethod, args: unknown[]) => Promise<unknown>): DeliveryDesk {
  const of =
    <Method extends keyof DeliveryDesk>(method: Method) =>
    (...args: Parameters<DeliveryDesk[Method]>) =>
      ask(method, args) as ReturnType<DeliveryDesk[Method]>
  return {
    refresh: of('refresh'),
    lanes: of('lanes'),
    backlogs: of('backlogs'),
    skip: of('skip'),
    retryNow: of('retryNow'),
    blockingMessage: of('blockingMessage'),
    rewind: of('rewind'),
    test: of('test'),
    pull: of('pull'),
    pulled: of('pulled'),
    abandoned: of('abandoned'),
    acknowledge: of('acknowledge'),
    endPulls: of('endPulls'),
    metrics: of('metrics'),
  }
}
