/**
 * The work of a transform thread: applies transforms for many lanes. Jobs take turns of a few milliseconds, fairly by
 * workspace and lane (`fair-turns.ts`), so that large batches and slow expressions do not block others. A single record
 * can still hang the thread: its starter sees on the board which one, and ends the thread (`transform-threads.ts`).
 */
import { records } from '../../log/record-text.ts'
import { type Caller, type Handlers, Transferred } from '../../platform/thread-calls.ts'
import { compileTransform, type RecordTransform, TransformError } from './compile.ts'
import { FairTurns } from './fair-turns.ts'
import {
  boardWords,
  ExceededError,
  type GivenUp,
  type TransformCalls,
  type TransformedBody,
  type TransformJob,
  type TransformReports,
  type Turn,
} from './thread-protocol.ts'

const turnMs = 10
/** A lane with a slower record continues in another thread. */
const slowRecordMs = 50
/**
 * The part of each second that a workspace can use while others wait. Above it, the workspace continues in another
 * thread.
 */
const budgetMs = 500
const budgetEveryMs = 1_000
/** The time limit of one job; a larger batch is sent in parts. */
const jobMs = 8_000
/** The allowed size of the result relative to the input (constants, longer keys and hashes add to it). */
const sizeFactor = 4
const sizeAllowance = 4 * 1024 * 1024
const keptPrograms = 500

interface RunningJob extends Turn {
  id: number
  steps: Generator<void, TransformedBody[] | Error>
  resolve(results: Transferred<TransformedBody[]> | null): void
  reject(error: Error): void
}

export class TransformJobs implements Handlers<TransformCalls> {
  readonly #starter: Caller<TransformReports>
  readonly #board: Int32Array
  readonly #jobs = new Map<number, RunningJob>()
  readonly #turns = new FairTurns<RunningJob>()
  readonly #programs = new Map<string, RecordTransform>()
  /** Used time by workspace, since `#budgetSince`. */
  readonly #used = new Map<string, number>()
  #budgetSince = performance.now()
  #isTurning = false

  constructor(starter: Caller<TransformReports>, board: Int32Array) {
    this.#starter = starter
    this.#board = board
  }

  run(job: TransformJob): Promise<Transferred<TransformedBody[]> | null> {
    const { id, workspaceId, destinationId, headStartMs } = job
    return new Promise((resolve, reject) => {
      const running = { id, workspaceId, destinationId, steps: this.#steps(job), resolve, reject }
      this.#jobs.set(id, running)
      this.#turns.add(running, headStartMs)
      this.#turnLater()
    })
  }

  cancel(id: number): void {
    const job = this.#jobs.get(id)
    if (job === undefined) return
    this.#remove(job)
    job.resolve(null)
  }

  #remove(job: RunningJob): void {
    this.#jobs.delete(job.id)
    this.#turns.remove(job)
  }

  #turnLater(): void {
    if (this.#isTurning) return
    this.#isTurning = true
    setImmediate(() => this.#turn())
  }

  /** Runs one turn of the next job. */
  #turn(): void {
    this.#isTurning = false
    const job = this.#turns.next()
    if (job === undefined) return
    Atomics.store(this.#board, boardWords.job, job.id)
    const startedAt = performance.now()
    let step = job.steps.next()
    while (!step.done && performance.now() < startedAt + turnMs) step = job.steps.next()
    Atomics.store(this.#board, boardWords.job, 0)
    this.#account(job, performance.now() - startedAt)
    if (step.done) {
      this.#remove(job)
      if (step.value instanceof Error) job.reject(step.value)
      else job.resolve(handedOver(step.value))
    }
    if (this.#jobs.size > 0) this.#turnLater()
  }

  #account(job: RunningJob, ms: number): void {
    this.#turns.used(job, ms)
    const now = performance.now()
    if (now - this.#budgetSince > budgetEveryMs) {
      this.#used.clear()
      this.#budgetSince = now
    }
    const usedMs = (this.#used.get(job.workspaceId) ?? 0) + ms
    this.#used.set(job.workspaceId, usedMs)
    if (usedMs > budgetMs && this.#turns.workspaces > 1) this.#starter.tell('slow', [job.id, 'workspace'])
  }

  /**
   * Each step applies the transform to one record. Returns the reason when the job has failed. A thrown error ends the
   * thread.
   */
  *#steps({ id, transform, bodies, givenUp }: TransformJob): Generator<void, TransformedBody[] | Error> {
    let apply: RecordTransform
    try {
      apply = this.#programOf(JSON.stringify(transform), () =>
        compileTransform(transform, (step) => Atomics.store(this.#board, boardWords.step, step)),
      )
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      return new Error(`the transform does not compile: ${reason}`)
    }
    const inputBytes = bodies.reduce((sum, { length }) => sum + length, 0)
    let left = inputBytes * sizeFactor + sizeAllowance
    let tookMs = 0
    const results: TransformedBody[] = []
    for (const [messageAt, body] of bodies.entries()) {
      const made = new BodyMaker(this.#board)
      let place = 0
      for (const record of records(Buffer.from(body.buffer, body.byteOffset, body.byteLength))) {
        Atomics.store(this.#board, boardWords.message, messageAt)
        Atomics.store(this.#board, boardWords.record, place)
        Atomics.add(this.#board, boardWords.steps, 1)
        const startedAt = performance.now()
        left -= made.add(record, place, apply, givenUp.find(isAt(messageAt, place)))
        const ms = performance.now() - startedAt
        tookMs += ms
        if (ms > slowRecordMs) this.#starter.tell('slow', [id, 'lane'])
        if (left < 0) return new ExceededError('size', messageAt)
        if (tookMs > jobMs) return new ExceededError('time', messageAt)
        place += 1
        yield
      }
      results.push(made.result(place))
    }
    return results
  }

  #programOf(text: string, compile: () => RecordTransform): RecordTransform {
    const known = this.#programs.get(text)
    if (known !== undefined) return known
    if (this.#programs.size >= keptPrograms) this.#programs.clear()
    const program = compile()
    this.#programs.set(text, program)
    return program
  }
}

/** Builds the transformed body of one message. */
class BodyMaker {
  readonly #board: Int32Array
  readonly #parts: Buffer[] = []
  readonly #places: number[] = []
  readonly #failed: TransformedBody['failed'] = []
  #filtered = 0
  #isChanged = false

  constructor(board: Int32Array) {
    this.#board = board
  }

  /** Returns the number of bytes added. */
  add(record: Buffer, place: number, apply: RecordTransform, givenUp: GivenUp | undefined): number {
    // It was deleted from the log.
    if (record.length === 0) {
      this.#filtered += 1
      return 0
    }
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
      // The platform's error message can contain the value.
      const message =
        error instanceof TransformError
          ? error.message
          : `The transform cannot be applied to the record (${error instanceof Error ? error.name : 'an error'}).`
      const step = Atomics.load(this.#board, boardWords.step)
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

function isAt(messageAt: number, place: number): (one: GivenUp) => boolean {
  return (one) => one.messageAt === messageAt && one.place === place
}

function handedOver(results: TransformedBody[]): Transferred<TransformedBody[]> {
  const buffers = results.flatMap(({ body }) => (body === null ? [] : [body.buffer as ArrayBuffer]))
  return new Transferred(results, buffers)
}
