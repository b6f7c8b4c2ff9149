/** A thread that runs one driver for one attempt or one check; whoever started it terminates it: `isolated-driver.ts`. */
import assert from 'node:assert'
import { Buffer } from 'node:buffer'
import { parentPort, workerData } from 'node:worker_threads'
import { type Batch, DeliveryError, type Sample } from '../destinations/driver.ts'
import { checkDestination, forgetDestination, openDriver } from '../destinations/drivers.ts'
import { beatEveryMs } from './delivery-protocol.ts'
import type { DriverThreadData, FromDriverThread, SentError, ToDriverThread } from './driver-protocol.ts'
import { WorkerBoard } from './worker-board.ts'

assert(parentPort !== null)
const port = parentPort
const { spec, settings, board } = workerData as DriverThreadData
const interrupt = new AbortController()
const waiting = new Map<number, () => void>()
type Asked = { resolve(text: string | null): void; reject(error: Error): void }
const pinning = new Map<number, Asked>()
const lookingUp = new Map<number, Asked>()
let lastRequest = 0

const beats = new WorkerBoard(board)
beats.beat()
setInterval(() => beats.beat(), beatEveryMs).unref()
port.on('message', (message: ToDriverThread) => {
  if (message.kind === 'abort') {
    interrupt.abort()
    for (const id of waiting.keys()) mayRequest(id)
  } else if (message.kind === 'may_request') mayRequest(message.id)
  else if (message.kind === 'pinned') pinned(message)
  else if (message.kind === 'message_id') lookedUp(message)
  else void run(message)
})

function mayRequest(id: number): void {
  waiting.get(id)?.()
  waiting.delete(id)
}

function pinned({ id, pinned, isStored }: Extract<ToDriverThread, { kind: 'pinned' }>): void {
  if (isStored) pinning.get(id)?.resolve(pinned)
  else pinning.get(id)?.reject(new Error('the delivery worker could not pin the key'))
  pinning.delete(id)
}

function lookedUp({ id, msgId, isRead }: Extract<ToDriverThread, { kind: 'message_id' }>): void {
  if (isRead) lookingUp.get(id)?.resolve(msgId)
  else lookingUp.get(id)?.reject(new Error('the delivery worker could not read the message'))
  lookingUp.delete(id)
}

async function run(task: Extract<ToDriverThread, { kind: 'deliver' | 'check' | 'forget' }>): Promise<void> {
  try {
    if (task.kind === 'deliver') post(await deliver(task.batch))
    else if (task.kind === 'check') post(await check(task.sample))
    else {
      await forgetDestination(spec, settings, interrupt.signal)
      post({ kind: 'forgotten' })
    }
  } catch (error) {
    post({ kind: 'failed', error: sentError(error) })
  }
}

async function deliver(batch: Batch): Promise<FromDriverThread> {
  const driver = openDriver(spec, settings, pinServerKey)
  await driver.deliver({ ...batch, messages: batch.messages.map(receivedMessage) }, interrupt.signal, {
    stored: (records) => post({ kind: 'stored', records }),
    beforeRequest,
    messageIdAt,
  })
  return { kind: 'delivered' }
}

async function check(sample: Sample | null): Promise<FromDriverThread> {
  const given =
    sample === null || sample.recent === null ? sample : { recent: receivedMessage(sample.recent) }
  return { kind: 'checked', checks: await checkDestination(spec, settings, interrupt.signal, given) }
}

/** Metadata is open in the delivery worker. */
function pinServerKey(sha256: string): Promise<string | null> {
  lastRequest += 1
  const id = lastRequest
  return new Promise((resolve, reject) => {
    pinning.set(id, { resolve, reject })
    post({ kind: 'pin', id, sha256 })
  })
}

/** The buffer is open in the delivery worker. */
function messageIdAt(seq: number): Promise<string | null> {
  lastRequest += 1
  const id = lastRequest
  return new Promise((resolve, reject) => {
    lookingUp.set(id, { resolve, reject })
    post({ kind: 'message_id', id, seq })
  })
}

/** The lane keeps the destination's rate. */
function beforeRequest(): Promise<void> {
  lastRequest += 1
  const id = lastRequest
  return new Promise((resolve) => {
    waiting.set(id, resolve)
    post({ kind: 'before_request', id })
  })
}

/** A Buffer is a Uint8Array when it arrives. */
function receivedMessage<M extends { body: Uint8Array }>(message: M): M & { body: Buffer } {
  const { buffer, byteOffset, byteLength } = message.body
  return { ...message, body: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength) }
}

function sentError(error: unknown): SentError {
  if (!(error instanceof DeliveryError)) {
    return { kind: 'internal', message: error instanceof Error ? String(error.stack) : String(error) }
  }
  const { class: errorClass, code, message, known: options } = error
  return { kind: 'delivery', errorClass, code, message, options }
}

function post(message: FromDriverThread): void {
  port.postMessage(message)
}
