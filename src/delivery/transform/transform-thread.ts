/**
 * A thread that applies transforms, for many lanes. Jobs take turns of a few milliseconds, fairly by workspace and lane
 * (`fair-turns.ts`), so that large batches and slow expressions do not hold the others up. A single record can still hang it: the
 * thread that started it sees on the board which one, and ends it (`transform-threads.ts`).
 */
import assert from 'node:assert'
import { constants, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { records } from '../../log/record-text.ts'
import { compileTransform, type RecordTransform, TransformError } from './compile.ts'
import { FairTurns } from './fair-turns.ts'
import {
  boardWords,
  type FromTransformThread,
  type GivenUp,
  type ToTransformThread,
  type TransformedBody,
  type TransformThreadData,
  type Turn,
} from './thread-protocol.ts'

assert(parentPort !== null)
const port = parentPort
const { board: memory, isShared } = workerData as TransformThreadData
const board = new Int32Array(memory)
if (!isShared) lowerPriority()

const turnMs = 10
/** A lane with a record that takes longer continues in another thread. */
const slowRecordMs = 50
/** The part of a second that a workspace may use while there are others; beyond it, it continues in another thread. */
const budgetMs = 500
const budgetEveryMs = 1_000
/** The limit of one job's own time: a larger batch is sent in parts. */
const jobMs = 8_000
/** The growth that a transform may add (constants, longer keys, hashes), relative to its input. */
const sizeFactor = 4
const sizeAllowance = 4 * 1024 * 1024
const keptPrograms = 500

interface Job extends Turn {
  id: number
  steps: Generator<void, FromTransformThread>
}
const jobs = new Map<number, Job>()
const turns = new FairTurns<Job>()
const programs = new Map<string, RecordTransform>()
/** By workspace, since `budgetSince`. */
const used = new Map<string, number>()
let budgetSince = performance.now()
let isTurning = false

port.on('message', (message: ToTransformThread) => {
  if (message.kind === 'run') {
    const { job: id, workspaceId, destinationId, headStartMs } = message
    const job = { id, workspaceId, destinationId, steps: run(message) }
    jobs.set(id, job)
    turns.add(job, headStartMs)
    turnLater()
  } else remove(jobs.get(message.job))
})

/**
 * Slow transforms get the processor time that nothing else needs. 0 is this thread on Linux; elsewhere it is the
 * whole process.
 */
function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(0, constants.priority.PRIORITY_LOW)
  } catch {
    // A sandbox can forbid it, as the package's unit does (`@resources`). It costs the others some processor time, nothing else.
  }
}

function remove(job: Job | undefined): void {
  if (job === undefined) return
  jobs.delete(job.id)
  turns.remove(job)
}

function turnLater(): void {
  if (isTurning) return
  isTurning = true
  setImmediate(turn)
}

/** One turn of the job that is next. */
function turn(): void {
  isTurning = false
  const job = turns.next()
  if (job === undefined) return
  Atomics.store(board, boardWords.job, job.id)
  const startedAt = performance.now()
  let step = job.steps.next()
  while (!step.done && performance.now() < startedAt + turnMs) step = job.steps.next()
  Atomics.store(board, boardWords.job, 0)
  account(job, performance.now() - startedAt)
  if (step.done) {
    remove(job)
    post(step.value)
  }
  if (jobs.size > 0) turnLater()
}

function account(job: Job, ms: number): void {
  turns.used(job, ms)
  const now = performance.now()
  if (now - budgetSince > budgetEveryMs) {
    used.clear()
    budgetSince = now
  }
  const usedMs = (used.get(job.workspaceId) ?? 0) + ms
  used.set(job.workspaceId, usedMs)
  if (usedMs > budgetMs && turns.workspaces > 1) post({ kind: 'slow', job: job.id, what: 'workspace' })
}

/** A step is a record. */
function* run({
  job,
  transform,
  bodies,
  givenUp,
}: Extract<ToTransformThread, { kind: 'run' }>): Generator<void, FromTransformThread> {
  let apply: RecordTransform
  try {
    apply = programOf(JSON.stringify(transform), () => compileTransform(transform, noteStep))
  } catch (error) {
    return { kind: 'failed', job, message: error instanceof Error ? error.message : String(error) }
  }
  const given = bodies.reduce((sum, { length }) => sum + length, 0)
  let left = given * sizeFactor + sizeAllowance
  let tookMs = 0
  const results: TransformedBody[] = []
  for (const [messageAt, body] of bodies.entries()) {
    const made = new BodyMaker()
    let place = 0
    for (const record of records(Buffer.from(body.buffer, body.byteOffset, body.byteLength))) {
      Atomics.store(board, boardWords.message, messageAt)
      Atomics.store(board, boardWords.record, place)
      Atomics.add(board, boardWords.steps, 1)
      const startedAt = performance.now()
      left -= made.add(record, place, apply, givenUp.find(isAt(messageAt, place)))
      const ms = performance.now() - startedAt
      tookMs += ms
      if (ms > slowRecordMs) post({ kind: 'slow', job, what: 'lane' })
      if (left < 0) return { kind: 'exceeded', job, what: 'size', messageAt }
      if (tookMs > jobMs) return { kind: 'exceeded', job, what: 'time', messageAt }
      place += 1
      yield
    }
    results.push(made.result(place))
  }
  return { kind: 'done', job, results }
}

/** Builds the result of one message. */
class BodyMaker {
  readonly #parts: Buffer[] = []
  readonly #places: number[] = []
  readonly #failed: TransformedBody['failed'] = []
  #filtered = 0
  #isChanged = false

  /** Returns how many bytes it has become larger by. */
  add(record: Buffer, place: number, apply: RecordTransform, givenUp: GivenUp | undefined): number {
    if (givenUp !== undefined) {
      const { code, message, step } = givenUp
      this.#failed.push({ place, code, message, step })
      return 0
    }
    const text = record.toString('utf8')
    let made: string | null
    try {
      made = apply(text)
    } catch (error) {
      const code = error instanceof TransformError ? error.code : 'transform_error'
      // The platform's message about a value may contain the value.
      const message =
        error instanceof TransformError
          ? error.message
          : `The transform cannot be applied to it (${error instanceof Error ? error.name : 'an error'}).`
      const step = Atomics.load(board, boardWords.step)
      this.#failed.push({ place, code, message: message.slice(0, 500), step })
      return 0
    }
    if (made === null) {
      this.#filtered += 1
      return 0
    }
    const isSame = made === text
    const part = isSame ? record : Buffer.from(made)
    this.#isChanged ||= !isSame
    this.#parts.push(part)
    this.#places.push(place)
    return part.length + 1
  }

  result(count: number): TransformedBody {
    const isWhole = this.#places.length === count
    return {
      body: isWhole && !this.#isChanged ? null : joined(this.#parts),
      places: isWhole ? null : this.#places,
      filtered: this.#filtered,
      failed: this.#failed,
    }
  }
}

/** As a stored body, in memory of its own. */
function joined(parts: readonly Buffer[]): Uint8Array {
  const bytes = parts.reduce((sum, { length }) => sum + length, Math.max(0, parts.length - 1))
  const whole = new Uint8Array(bytes)
  let at = 0
  for (const [index, part] of parts.entries()) {
    if (index > 0) whole[at++] = 0x0a
    whole.set(part, at)
    at += part.length
  }
  return whole
}

function noteStep(step: number): void {
  Atomics.store(board, boardWords.step, step)
}

function isAt(messageAt: number, place: number): (one: GivenUp) => boolean {
  return (one) => one.messageAt === messageAt && one.place === place
}

function programOf(text: string, compile: () => RecordTransform): RecordTransform {
  const known = programs.get(text)
  if (known !== undefined) return known
  if (programs.size >= keptPrograms) programs.clear()
  const program = compile()
  programs.set(text, program)
  return program
}

function post(message: FromTransformThread): void {
  const buffers =
    message.kind === 'done'
      ? message.results.flatMap(({ body }) => (body === null ? [] : [body.buffer as ArrayBuffer]))
      : []
  port.postMessage(message, buffers)
}
