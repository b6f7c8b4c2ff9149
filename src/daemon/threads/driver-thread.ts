/** A thread that runs one driver for one attempt or one check; whoever started it terminates it: `isolated-driver.ts`. */
import assert from 'node:assert'
import { Buffer } from 'node:buffer'
import { parentPort, workerData } from 'node:worker_threads'
import { beatEveryMs } from '../../delivery/delivery-protocol.ts'
import {
  type DriverThreadData,
  type FromDriverThread,
  type Question,
  receivedError,
  sentError,
  type ToDriverThread,
} from '../../delivery/driver-protocol.ts'
import { WorkerBoard } from '../../delivery/worker-board.ts'
import type { InferRequest, RejectedRecord, Sample } from '../../destinations/driver.ts'
import {
  checkDestination,
  forgetDestination,
  inferForDestination,
  openDriver,
} from '../../destinations/drivers.ts'

assert(parentPort !== null)
const port = parentPort
const { spec, settings, board } = workerData as DriverThreadData
const interrupt = new AbortController()
const waiting = new Map<number, () => void>()
type Asked = { resolve(text: string | null): void; reject(error: Error): void }
const asked = new Map<number, Asked>()
let lastRequest = 0

const beats = new WorkerBoard(board)
beats.beat()
setInterval(() => beats.beat(), beatEveryMs).unref()
port.on('message', (message: ToDriverThread) => {
  if (message.kind === 'abort') {
    interrupt.abort()
    for (const id of waiting.keys()) mayRequest(id)
  } else if (message.kind === 'may_request') mayRequest(message.id)
  else if (message.kind === 'answered') answered(message)
  else void run(message)
})

function mayRequest(id: number): void {
  waiting.get(id)?.()
  waiting.delete(id)
}

async function run(
  task: Extract<ToDriverThread, { kind: 'deliver' | 'check' | 'infer' | 'forget' }>,
): Promise<void> {
  try {
    if (task.kind === 'deliver') post(await deliver(task))
    else if (task.kind === 'check') post(await check(task.sample))
    else if (task.kind === 'infer') post(await infer(task.request))
    else {
      await forgetDestination(spec, settings, interrupt.signal)
      post({ kind: 'forgotten' })
    }
  } catch (error) {
    post({ kind: 'failed', error: sentError(error) })
  }
}

async function deliver({
  batch,
  setsAside,
}: Extract<ToDriverThread, { kind: 'deliver' }>): Promise<FromDriverThread> {
  const driver = openDriver(spec, settings, (sha256) => ask({ kind: 'pin', sha256 }))
  await driver.deliver({ ...batch, messages: batch.messages.map(receivedMessage) }, interrupt.signal, {
    stored: (records) => post({ kind: 'stored', records }),
    beforeRequest,
    messageIdAt: (seq) => ask({ kind: 'message_id', seq }),
    ...(setsAside ? { setAside } : {}),
  })
  return { kind: 'delivered' }
}

async function setAside(rejected: readonly RejectedRecord[]): Promise<void> {
  await ask({ kind: 'set_aside', rejected })
}

async function check(sample: Sample | null): Promise<FromDriverThread> {
  const given =
    sample === null || sample.recent === null ? sample : { ...sample, recent: receivedMessage(sample.recent) }
  return { kind: 'checked', checks: await checkDestination(spec, settings, interrupt.signal, given) }
}

async function infer(request: InferRequest): Promise<FromDriverThread> {
  const bodies = request.bodies.map(received)
  const given = { ...request, bodies }
  return { kind: 'inferred', proposal: await inferForDestination(spec, settings, interrupt.signal, given) }
}

/** Metadata and buffer are open in the delivery worker. */
function ask(question: Question): Promise<string | null> {
  lastRequest += 1
  const id = lastRequest
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve, reject })
    post({ kind: 'ask', id, question })
  })
}

function answered({ id, answer, error }: Extract<ToDriverThread, { kind: 'answered' }>): void {
  if (error === null) asked.get(id)?.resolve(answer)
  else asked.get(id)?.reject(receivedError(error))
  asked.delete(id)
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
  return { ...message, body: received(message.body) }
}

function received({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}

function post(message: FromDriverThread): void {
  port.postMessage(message)
}
