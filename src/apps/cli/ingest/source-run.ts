/**
 * Sends one source. Batches are cut and compressed ahead of the request that is under way, and accepted in the order of
 * the input: by default, a batch is sent when the one before it is accepted. With more requests at the same time, the
 * saved offset is the end of the last batch before which everything is accepted.
 *
 *   cut ──▶ waiting ──▶ sent ──202──▶ accepted: the offset moves when it is the first one
 *                         └─ rejected ──▶ no further batch is sent; when it is the first one, it is sent in parts, down
 *                                         to the record, which stops the run or is set aside
 *
 * The borders of batches depend only on the input and the limits, never on responses: see resume-state.ts.
 */

import { appendFileSync, existsSync } from 'node:fs'
import { isObject } from '../../../contract/is-object.ts'
import { ApiFailure, commandFailure, exitCodes, Failure } from '../../client/failure.ts'
import type { IngestProgress } from '../progress.ts'
import { Batcher, bodyOf, type RecordBatch } from './batcher.ts'
import type { InputRecord, InvalidPiece, PieceReader, StartAt } from './input.ts'
import { openReader } from './reader.ts'
import { idempotencyKey, type ResumeFile, type ResumeState, saveState } from './resume-state.ts'
import type { IngestResult, IngestSettings } from './settings.ts'
import type { Source } from './source.ts'

/** Further ones are only counted. */
const maxNotes = 10
/** Time without live input after which an incomplete batch is sent. */
const lingerMs = 500
/** Batches that wait for those under way. */
const batchesAhead = 2
const saveEveryMs = 250

interface SourceRunParts {
  settings: IngestSettings
  resume: ResumeFile
  /** The progress in the input. */
  state: ResumeState
  source: Source
  progress: IngestProgress
  send(request: { body: Buffer; key: string }): Promise<void>
  /** Counts what all sources have sent. */
  sent: IngestResult
}

interface Waiting {
  batch: RecordBatch
  startOffset: number
  /** Null: not sent yet. It resolves with the error, or null when the batch is accepted. */
  outcome: Promise<unknown> | null
}

export class SourceRun {
  readonly #parts: SourceRunParts
  readonly #resumedAfter: number
  #reader: PieceReader | null = null
  #skippedHere = 0
  #savedMs = 0
  /** In the order of the input. */
  readonly #waiting: Waiting[] = []
  #underWay = 0
  #cutOffset: number
  #isCutting = false
  #isEnded = false
  #cutError: unknown = null
  /** After a batch that needs attention, none is sent until it is done. */
  #isHeld = false
  /** A part was rejected because of its size. */
  #metLimit = false
  #changed: () => void = () => {}

  constructor(parts: SourceRunParts) {
    this.#parts = parts
    this.#resumedAfter = parts.state.records
    this.#cutOffset = parts.state.offset
  }

  async run(): Promise<void> {
    const { settings, state, source, progress, sent } = this.#parts
    sent.resumedAfter += this.#resumedAfter
    if (this.#resumedAfter > 0) {
      progress.note(
        `Continuing after record ${this.#resumedAfter}${sent.sources > 1 ? ` of ${source.name}` : ''}, which an earlier run sent.`,
      )
    }
    try {
      const reader = await openReader(source, settings, state)
      this.#reader = reader
      this.#save()
      await this.#sendAll(reader)
    } catch (error) {
      await this.#settle()
      if (this.#reader !== null) this.#save()
      throw settings.signal.aborted ? this.#interrupted() : error
    } finally {
      await this.#reader?.close()
    }
    if (state.records === 0 && this.#skippedHere === 0) return
    Object.assign(state, { insideArray: false, done: true })
    if (source.canGrow && this.#reader?.unit === 'line') state.offset = source.storedBytesRead()
    this.#save()
  }

  async #sendAll(reader: PieceReader): Promise<void> {
    const { state, source } = this.#parts
    const batcher = new Batcher(reader, source.identity === null ? lingerMs : null)
    // The first batch is sent before the second is cut, so that a limit that it meets applies to the others.
    const first = await batcher.next(state, state.unfinished?.end)
    if (first === null) return
    this.#cutOffset = first.end
    const parts = state.unfinished?.records ?? first.records.length
    await this.#finish(first, { partRecords: parts, error: null })
    if (state.unfinished !== null && first.records.length > 0) this.#lowerLimit(state.unfinished.records)
    state.unfinished = null
    void this.#cut(batcher)
    for (let next = await this.#next(batcher); next !== null; next = await this.#next(batcher)) {
      const error = await next.outcome
      if (error === null || error === undefined) this.#accepted(next)
      else {
        await this.#settle()
        await this.#finish(next.batch, { partRecords: next.batch.records.length, error })
        state.unfinished = null
        this.#isHeld = false
      }
      this.#waiting.shift()
      this.#sendWaiting()
      void this.#cut(batcher)
    }
  }

  /** Cuts batches until enough wait. */
  async #cut(batcher: Batcher): Promise<void> {
    if (this.#isCutting) return
    this.#isCutting = true
    const { settings, state } = this.#parts
    try {
      while (!this.#isEnded && this.#waiting.length < settings.inFlight + batchesAhead) {
        const batch = await batcher.next(state)
        if (batch === null) this.#isEnded = true
        else {
          this.#waiting.push({ batch, startOffset: this.#cutOffset, outcome: null })
          this.#cutOffset = batch.end
          this.#sendWaiting()
        }
        this.#changed()
      }
    } catch (error) {
      this.#cutError = error
      this.#isEnded = true
      this.#changed()
    } finally {
      this.#isCutting = false
    }
  }

  /** The first batch, once it is sent or invalid. Null at the end. Throws the error of the input after its records. */
  async #next(batcher: Batcher): Promise<Waiting | null> {
    for (;;) {
      this.#parts.settings.signal.throwIfAborted()
      const [first] = this.#waiting
      if (first !== undefined && first.batch.invalid.length > 0) first.outcome = Promise.resolve('invalid')
      if (first !== undefined && first.outcome !== null) return first
      if (first === undefined && this.#isEnded) {
        if (this.#cutError !== null) throw this.#cutError
        return null
      }
      const changed = new Promise<void>((resolve) => {
        this.#changed = resolve
      })
      void this.#cut(batcher)
      await raced(changed, this.#parts.settings.signal)
    }
  }

  /** An invalid piece that ends the run is never overtaken by the records after it. */
  #sendWaiting(): void {
    const { inFlight, skips } = this.#parts.settings
    for (const waiting of this.#waiting) {
      if (this.#isHeld || this.#underWay >= inFlight) return
      const isInvalid = waiting.batch.invalid.length > 0
      if (isInvalid && !skips) return
      if (isInvalid || waiting.outcome !== null) continue
      this.#underWay += 1
      waiting.outcome = this.#trySend(waiting.batch.records, waiting.startOffset).then((error) => {
        this.#underWay -= 1
        if (error !== null) this.#isHeld = true
        this.#sendWaiting()
        return error
      })
    }
  }

  /** Waits for the requests under way: their batches are accepted or not, and a resumed run sends them again. */
  async #settle(): Promise<void> {
    await Promise.all(this.#waiting.map(({ outcome }) => outcome))
  }

  /** Returns the error if the records were not accepted. */
  async #trySend(records: readonly InputRecord[], startOffset: number): Promise<unknown> {
    const { resume, state, send, sent } = this.#parts
    const body = bodyOf(records)
    try {
      await send({ body, key: idempotencyKey(resume, state.run, startOffset, body) })
    } catch (error) {
      return error ?? new Error('the request failed')
    }
    sent.requests += 1
    return null
  }

  #accepted({ batch }: Waiting): void {
    this.#advance(batch.records.length, { offset: batch.end, lines: batch.linesBeforeEnd })
    if (Date.now() - this.#savedMs >= saveEveryMs) this.#save()
  }

  #advance(records: number, { offset, lines }: Pick<StartAt, 'offset' | 'lines'>): void {
    const { state, source, progress, sent } = this.#parts
    const reader = this.#reader as PieceReader
    state.records += records
    sent.records += records
    state.offset = offset
    state.lines = lines
    state.insideArray = reader.insideArray
    progress.update(
      Math.min(source.size ?? Number.POSITIVE_INFINITY, reader.storedBytes(offset)),
      sent.records,
    )
  }

  /**
   * Sends a batch that is the first one, in parts: after a rejection in smaller ones. The size of the parts is saved
   * before they are sent, because a resumed run must cut the same parts.
   */
  async #finish(
    batch: RecordBatch,
    { partRecords, error }: { partRecords: number; error: unknown },
  ): Promise<void> {
    const { state } = this.#parts
    if (batch.invalid.length > 0) {
      this.#skip(batch.invalid)
      this.#advance(0, { offset: batch.end, lines: batch.linesBeforeEnd })
      this.#save()
      return
    }
    const { records } = batch
    let at = 0
    let size = Math.min(partRecords, records.length)
    let failed = error
    while (at < records.length) {
      const part = records.slice(at, at + size)
      failed ??= await this.#trySend(part, state.offset)
      if (failed !== null && part.length > 1 && this.#helpsToSplit(failed)) {
        size = smallerPart(failed, part.length)
        this.#saveUnfinished(size, batch.end)
      } else {
        at += part.length
        this.#partDone(part, failed)
        if (failed !== null) {
          size = records.length - at
          this.#saveUnfinished(size, batch.end)
        }
      }
      failed = null
    }
  }

  /** The part is accepted, or its only record is set aside. Throws the error if it cannot be. */
  #partDone(part: readonly InputRecord[], error: unknown): void {
    if (error !== null) this.#skipRejected(part, error)
    const last = part.at(-1) as InputRecord
    this.#advance(error === null ? part.length : 0, { offset: last.end, lines: last.linesBeforeEnd })
  }

  #saveUnfinished(records: number, end: number): void {
    this.#parts.state.unfinished = records === 0 ? null : { records, end }
    this.#save()
  }

  /** If the first batch was too large for a limit that is not known, later ones are cut smaller. */
  #lowerLimit(records: number): void {
    const { state } = this.#parts
    if (!this.#metLimit) return
    state.maxRecords = Math.min(state.maxRecords, records)
    state.unfinished = null
    this.#save()
  }

  /** Smaller parts help if the body was too large, or an unknown record of it was rejected. */
  #helpsToSplit(error: unknown): boolean {
    if (!(error instanceof ApiFailure)) return false
    if (error.status === 413) {
      this.#metLimit = true
      return true
    }
    const isNamed = typeof error.body.record_index === 'number'
    return isRejected(error) && (this.#parts.settings.skips || !isNamed)
  }

  /** Sets aside the only record of a rejected part. Throws any other error, with the records that it concerns. */
  #skipRejected(part: readonly InputRecord[], error: unknown): void {
    const { settings } = this.#parts
    const [record] = part
    const isSkippable = part.length === 1 && (isRejected(error) || isTooLarge(error))
    if (!settings.skips || record === undefined || !isSkippable) throw this.#located(error, part)
    const bytes = record.original ?? record.bytes
    this.#skip([{ ...record, bytes, kind: 'invalid', reason: reasonOf(error as ApiFailure) }])
  }

  #skip(invalid: readonly InvalidPiece[]): void {
    const { progress, settings, source, sent } = this.#parts
    const unit = this.#reader?.unit ?? 'line'
    if (!settings.skips) throw invalidInput(source.name, unit, invalid[0]!)
    if (settings.skipInvalid !== null) this.#putAside(settings.skipInvalid, invalid)
    for (const { line, reason } of invalid.slice(0, Math.max(0, maxNotes - this.#skippedHere))) {
      progress.note(`${source.name}, ${unit} ${line}: ${reason}`)
    }
    this.#skippedHere += invalid.length
    sent.skipped += invalid.length
  }

  /**
   * One per line with the original bytes, so that the user can correct and send them; a new file for CSV begins with the
   * header line. If the run is killed right after this, the next one sets them aside again.
   */
  #putAside(file: string, invalid: readonly InvalidPiece[]): void {
    const lines: Buffer[] = invalid.map((piece) => Buffer.concat([piece.bytes, Buffer.from('\n')]))
    const header = existsSync(file) ? null : (this.#reader?.headerLine ?? null)
    if (header !== null) lines.unshift(header)
    appendFileSync(file, Buffer.concat(lines), { mode: 0o600 })
  }

  /** Adds the records of the input that an error concerns. */
  #located(error: unknown, part: readonly InputRecord[]): unknown {
    if (!(error instanceof ApiFailure) || error.status === 401 || error.status === 404) return error
    const { source, state } = this.#parts
    const unit = this.#reader?.unit ?? 'line'
    const { record_index: given } = error.body
    const index = typeof given === 'number' ? given : part.length === 1 ? 0 : null
    const first = state.records + 1
    const record = part[index ?? 0]
    const where = `${source.name}, ${unit} ${record?.line ?? state.lines + 1}`
    if (index !== null && (isRejected(error) || isTooLarge(error))) {
      return new Failure(
        error.exitCode,
        `${where} (record ${first + index}): ${reasonOf(error)}; everything before record ${first} is accepted`,
        `${error.hint}; or continue without such records: --on-error skip, or --skip-invalid FILE`,
        error,
      )
    }
    return new Failure(
      error.exitCode,
      `${where} (records ${first} to ${state.records + part.length}): ${reasonOf(error)}`,
      `${error.hint}; everything before record ${first} is accepted`,
      error,
    )
  }

  #interrupted(): Failure {
    const { source, sent } = this.#parts
    return new Failure(
      exitCodes.interrupted,
      `interrupted after ${sent.records + sent.resumedAfter} records were accepted`,
      source.identity === null
        ? 'input from a pipe cannot be resumed: put it into a file and name that'
        : 'run the same command again to resume: nothing is sent twice',
    )
  }

  #save(): void {
    const { resume, source, state } = this.#parts
    this.#savedMs = Date.now()
    saveState(resume, source, state)
  }
}

async function raced(changed: Promise<void>, signal: AbortSignal): Promise<void> {
  let stop = () => {}
  const aborted = new Promise<void>((resolve) => {
    stop = resolve
    signal.addEventListener('abort', stop, { once: true })
  })
  await Promise.race([changed, aborted])
  signal.removeEventListener('abort', stop)
}

function smallerPart(error: unknown, length: number): number {
  const index = error instanceof ApiFailure ? error.body.record_index : undefined
  if (typeof index === 'number' && index > 0 && index < length) return index
  return index === 0 ? 1 : Math.ceil(length / 2)
}

function invalidInput(name: string, unit: string, piece: InvalidPiece): Failure {
  if (looksLikeCsv(piece)) {
    return commandFailure(
      `${name}, line 1: ${piece.reason}. It looks like CSV; nothing was sent`,
      'if it is CSV, add --format csv',
    )
  }
  return commandFailure(
    `${name}, ${unit} ${piece.line}: ${piece.reason}; everything before it is accepted`,
    'correct that line and run the same command again (it continues there), or continue without such lines: --on-error skip, or --skip-invalid FILE',
  )
}

/** True for a first line of values separated by commas, semicolons or tabs, without JSON objects or arrays. */
function looksLikeCsv({ line, bytes }: InvalidPiece): boolean {
  return line === 1 && /^[^{}[\]]*[,;\t][^{}[\]]*$/.test(bytes.toString('utf8'))
}

const rejectedContent = ['invalid_payload', 'missing_required_fields', 'schema_mismatch']

/** True if the daemon rejects the content of a record. Sending it again cannot help. */
function isRejected(error: unknown): error is ApiFailure {
  return error instanceof ApiFailure && rejectedContent.includes(error.code)
}

function isTooLarge(error: unknown): boolean {
  return error instanceof ApiFailure && error.code === 'payload_too_large'
}

function reasonOf(error: ApiFailure): string {
  const { fields, errors } = error.body
  const [first] = Array.isArray(errors) ? errors : []
  if (isObject(first)) return `${error.message}: ${first.path || '/'}: ${first.message}`
  return Array.isArray(fields) ? `${error.message}: ${fields.join(', ')}` : error.message
}
