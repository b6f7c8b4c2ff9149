/**
 * A driver for one attempt in a thread of its own, which may die without anybody else noticing: for lanes that ended the
 * worker of all, and for checks of destinations that nobody has used yet.
 *
 *   deliver ─▶ a place is free ─▶ thread starts ─▶ driver delivers ─▶ outcome, thread is terminated
 *                                     └── dies, or gives no sign of life for 5 s ─▶ DriverDiedError
 *
 * The lane itself stays where it is: only its driver is elsewhere, so its row, its cursor and its commands have one owner.
 */
import assert from 'node:assert'
import { Worker } from 'node:worker_threads'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import type {
  AttemptProgress,
  Batch,
  DestinationCheck,
  DestinationSpec,
  DriverSettings,
  InferRequest,
  PinServerKey,
  Sample,
} from '../destinations/driver.ts'
import { threadEntry } from '../platform/threads.ts'
import { beatEveryMs } from './delivery-protocol.ts'
import {
  DriverDiedError,
  type DriverThreadData,
  type FromDriverThread,
  type Question,
  receivedError,
  sentError,
  type ToDriverThread,
} from './driver-protocol.ts'
import { Places } from './places.ts'
import { newBoardMemory, WorkerBoard } from './worker-board.ts'

export interface IsolatedDrivers {
  /** As `DestinationDriver.deliver`; rejects with DriverDiedError when the thread died. */
  deliver(
    spec: DestinationSpec,
    batch: Batch,
    signal: AbortSignal,
    progress: AttemptProgress | undefined,
    pin: PinServerKey,
  ): Promise<void>
  /** As `DriverModule.check`; the same. */
  check(spec: DestinationSpec, signal: AbortSignal, sample: Sample | null): Promise<DestinationCheck[]>
  /** As `DriverModule.infer`; the same. */
  infer(spec: DestinationSpec, signal: AbortSignal, request: InferRequest): Promise<TableProposal>
  /** As `forgetDestination`; the same. */
  forget(spec: DestinationSpec, signal: AbortSignal): Promise<void>
}

const threadsAtOnce = 2
/** Each takes 20 MiB and more for its code. */
const checksAtOnce = 2
const looksToBeTerminated = 5
/** Until its code is loaded it gives no sign. */
const looksWhileStarting = 60
/** What was aborted may still say how it ended. */
const abortGraceMs = 2_000

export function isolatedDrivers(settings: DriverSettings): IsolatedDrivers {
  const attempts = new Places(threadsAtOnce)
  const checks = new Places(checksAtOnce)
  return {
    async deliver(spec, batch, signal, progress, pin) {
      const outcome = await attempts.run(signal, () =>
        runApart({ spec, settings }, deliverTask(batch, progress), signal, { progress, pin }),
      )
      if (outcome.kind === 'failed') throw receivedError(outcome.error)
    },
    async check(spec, signal, sample) {
      const outcome = await checks.run(signal, () =>
        runApart({ spec, settings }, { kind: 'check', sample: sentSample(sample) }, signal),
      )
      if (outcome.kind === 'failed') throw receivedError(outcome.error)
      return outcome.kind === 'checked' ? outcome.checks : []
    },
    async infer(spec, signal, request) {
      const bodies = request.bodies.map((body) => Uint8Array.from(body) as Buffer)
      const outcome = await checks.run(signal, () =>
        runApart({ spec, settings }, { kind: 'infer', request: { ...request, bodies } }, signal),
      )
      if (outcome.kind === 'failed') throw receivedError(outcome.error)
      if (outcome.kind !== 'inferred') throw new Error(`a driver responded to infer with ${outcome.kind}`)
      return outcome.proposal
    },
    async forget(spec, signal) {
      const outcome = await checks.run(signal, () => runApart({ spec, settings }, { kind: 'forget' }, signal))
      if (outcome.kind === 'failed') throw receivedError(outcome.error)
    },
  }
}

type Outcome = Extract<
  FromDriverThread,
  { kind: 'delivered' | 'failed' | 'checked' | 'inferred' | 'forgotten' }
>

/** What a driver that delivers asks of its lane. A check asks nothing. */
interface LaneServices {
  progress: AttemptProgress | undefined
  pin: PinServerKey
}

/** Resolves when the thread has ended. */
async function runApart(
  data: Omit<DriverThreadData, 'board'>,
  task: ToDriverThread,
  signal: AbortSignal,
  lane?: LaneServices,
): Promise<Outcome> {
  const memory = newBoardMemory()
  const worker = new Worker(threadEntry(import.meta.url, '../daemon/threads/driver-thread'), {
    name: 'driver',
    resourceLimits: { maxYoungGenerationSizeMb: resourceLimits.driverYoungHeapMiB },
    workerData: { ...data, board: memory } satisfies DriverThreadData,
  })
  // Whoever waits for it keeps the process alive, not the thread.
  worker.unref()
  const post = (message: ToDriverThread) => worker.postMessage(message)
  const ends: (() => void)[] = []
  try {
    return await new Promise<Outcome>((resolve, reject) => {
      const died = (reason: string) => reject(new DriverDiedError(reason))
      worker.on('message', (message: FromDriverThread) => {
        if (message.kind === 'stored') lane?.progress?.stored(message.records)
        else if (message.kind === 'before_request') {
          const { id } = message
          void lane?.progress?.beforeRequest().then(() => post({ kind: 'may_request', id }))
        } else if (message.kind === 'ask') {
          const { id, question } = message
          answer(question, lane).then(
            (answer) => post({ kind: 'answered', id, answer, error: null }),
            (error: unknown) => post({ kind: 'answered', id, answer: null, error: sentError(error) }),
          )
        } else resolve(message)
      })
      worker.once('error', (error: unknown) => died(error instanceof Error ? error.message : 'an error'))
      worker.once('exit', () => died('it ended'))
      ends.push(watch(new WorkerBoard(memory), () => died('it gave no sign of life')))
      const abort = () => {
        post({ kind: 'abort' })
        const timer = setTimeout(() => died('it did not end when it was aborted'), abortGraceMs)
        ends.push(() => clearTimeout(timer))
      }
      signal.addEventListener('abort', abort, { once: true })
      ends.push(() => signal.removeEventListener('abort', abort))
      post(task)
    })
  } finally {
    for (const end of ends) end()
    await worker.terminate()
  }
}

async function answer(question: Question, lane: LaneServices | undefined): Promise<string | null> {
  if (question.kind === 'pin') return (await lane?.pin(question.sha256)) ?? null
  if (question.kind === 'message_id') return (await lane?.progress?.messageIdAt?.(question.seq)) ?? null
  const { progress } = lane ?? {}
  assert(progress?.setAside !== undefined)
  await progress.setAside(question.rejected)
  return null
}

function watch(board: WorkerBoard, onSilent: () => void): () => void {
  let seen = 0
  let looks = 0
  const timer = setInterval(() => {
    const { beats } = board
    looks = beats === seen ? looks + 1 : 0
    seen = beats
    if (looks >= (beats === 0 ? looksWhileStarting : looksToBeTerminated)) onSilent()
  }, beatEveryMs)
  timer.unref()
  return () => clearInterval(timer)
}

function deliverTask(batch: Batch, progress: AttemptProgress | undefined): ToDriverThread {
  return { kind: 'deliver', batch: sentBatch(batch), setsAside: progress?.setAside !== undefined }
}

/** Bodies as arrays of their own: a Buffer that is a view would take all it is a view of with it. */
function sentBatch(batch: Batch): Batch {
  return { ...batch, messages: batch.messages.map(sentMessage) }
}

function sentSample(sample: Sample | null): Sample | null {
  return sample === null || sample.recent === null
    ? sample
    : { ...sample, recent: sentMessage(sample.recent) }
}

function sentMessage<M extends { body: Uint8Array }>(message: M): M {
  return { ...message, body: Uint8Array.from(message.body) }
}
