/**
 * The work of `pipectl ingest`: input → records → batches → daemon, one batch at a time to preserve the order. The
 * new offset is saved after every 202. An interruption at any point neither loses nor duplicates a record.
 */
import { appendFileSync, createReadStream, statSync } from 'node:fs'
import type { Pipe } from '../../../contract/pipe.ts'
import type { Client, PipeDetail } from '../../client/client.ts'
import { ApiFailure, commandFailure, exitCodes, Failure, nothingToDoFailure } from '../../client/failure.ts'
import { io } from '../io.ts'
import { type IngestProgress, openIngestProgress } from '../progress.ts'
import { tryingAgain } from '../retry.ts'
import { Batcher, type BatchLimits, bodyOf, type RecordBatch } from './batcher.ts'
import type { InvalidPiece } from './input.ts'
import { StreamSplitter, splitterForFile } from './layout.ts'
import {
  idempotencyKey,
  loadState,
  newState,
  type ResumeFile,
  type ResumeState,
  resumeFileOf,
  saveState,
} from './resume-state.ts'
import { sendBatch } from './send-batch.ts'

export interface IngestSettings {
  /** A file. Null: stdin. */
  file: string | null
  maxRecords: number | null
  maxBytes: number
  gzip: boolean
  patienceMs: number
  /** Sends a file again that was already sent completely. */
  again: boolean
  /** The file for invalid pieces. Null: the first invalid piece ends the run. */
  skipInvalid: string | null
  env: NodeJS.ProcessEnv
  signal: AbortSignal
}

export interface IngestResult {
  records: number
  requests: number
  /** Records that earlier runs of the same command sent. */
  resumedAfter: number
  /** Invalid pieces that were set aside. */
  skipped: number
}

const defaultMaxRecords = 1000
/** Further ones are only counted. */
const maxNotes = 10
/** Time without live input after which an incomplete batch is sent. */
const lingerMs = 500

/** `isNamedAlone`: the key can send to the pipe but cannot read it. */
export type IngestTarget = Pick<Pipe, 'pipe_id' | 'pipe_name' | 'pipe_api_key_required'> & {
  isNamedAlone?: boolean
}

async function settingsOf(
  client: Client,
  { pipe_id, isNamedAlone }: IngestTarget,
): Promise<Pick<PipeDetail, 'limits' | 'allowed_origins'>> {
  if (isNamedAlone === true) return { limits: null, allowed_origins: [] }
  return (await client.call('getPipe', { path: { pipe_id } })).body
}

/** Sends the complete input. Throws Failure. If the signal interrupts it, the exit code is 130. */
export async function runIngest(
  client: Client,
  pipe: IngestTarget,
  settings: IngestSettings,
): Promise<IngestResult> {
  const { limits: pipeLimits, allowed_origins: origins } = await settingsOf(client, pipe)
  const perRequest = pipeLimits?.pl_ingest_max_records_per_request ?? Number.MAX_SAFE_INTEGER
  const maxRecords = Math.min(settings.maxRecords ?? defaultMaxRecords, perRequest)
  const limits = { maxRecords, maxBytes: settings.maxBytes }
  const origin = pipe.pipe_api_key_required ? null : (origins[0]?.origin_domain ?? 'http://localhost')
  const resume = resumeFileOf(settings.file, client.url, pipe.pipe_id, settings.env)
  const state = startingState(settings, resume, pipe, limits)
  const input = openInput(settings, state)
  const progress = openIngestProgress(input.totalBytes, state.offset)
  const onWait = (reason: string, waitMs: number) => progress.note(tryingAgain(reason, waitMs))
  const sending = { ...settings, origin, onWait }
  const send: RunParts['send'] = (request) => sendBatch(client, pipe.pipe_id, request, sending)
  return new IngestRun({ settings, limits, resume, state, input, progress, send }).run()
}

interface RunParts {
  settings: IngestSettings
  limits: BatchLimits
  resume: ResumeFile
  /** The progress in the input. Saved before and after each request that changes it. */
  state: ResumeState
  input: Input
  progress: IngestProgress
  send(request: { body: Buffer; key: string }): Promise<void>
}

class IngestRun {
  readonly #parts: RunParts
  readonly #resumedAfter: number
  #requests = 0
  #skipped = 0

  constructor(parts: RunParts) {
    this.#parts = parts
    this.#resumedAfter = parts.state.records
  }

  async run(): Promise<IngestResult> {
    const { settings, state, input, progress } = this.#parts
    if (this.#resumedAfter > 0) {
      progress.note(`Continuing after record ${this.#resumedAfter}, which an earlier run sent.`)
    }
    try {
      this.#save()
      await this.#sendAll()
    } catch (error) {
      throw settings.signal.aborted ? interrupted(settings.file, state) : error
    } finally {
      progress.end()
    }
    if (state.records === 0 && this.#skipped === 0) throw nothingToSend()
    Object.assign(state, { offset: input.bytesRead(), insideArray: false, done: true })
    this.#save()
    return {
      records: state.records - this.#resumedAfter,
      requests: this.#requests,
      resumedAfter: this.#resumedAfter,
      skipped: this.#skipped,
    }
  }

  async #sendAll(): Promise<void> {
    const { limits, state, input, progress } = this.#parts
    const { batcher } = input
    for (let batch = await batcher.next(state); batch !== null; batch = await batcher.next(state)) {
      if (batch.invalid.length > 0) this.#skip(batch.invalid)
      else {
        const error = await this.#trySend(batch)
        if (error !== null && this.#tryHalve(batch, error)) continue
        if (error !== null) this.#skipRejected(batch, error)
      }
      state.offset = batch.end
      state.lines = batch.linesBeforeEnd
      state.insideArray = batcher.insideArray
      // The limits of the interrupted run were needed only for its unfinished batch.
      if (this.#requests === 1 && this.#resumedAfter > 0) Object.assign(state, limits)
      this.#save()
      progress.update(state.offset, state.records)
    }
  }

  /** Returns the error if the batch was not accepted. */
  async #trySend(batch: RecordBatch): Promise<unknown> {
    const { resume, state, send } = this.#parts
    const body = bodyOf(batch)
    try {
      await send({ body, key: idempotencyKey(resume, state, body) })
    } catch (error) {
      return error
    }
    this.#requests += 1
    state.records += batch.records.length
    return null
  }

  /** Returns a batch to the input to send it in halves. False: smaller batches would not help. */
  #tryHalve(batch: RecordBatch, error: unknown): boolean {
    const { settings, state, input } = this.#parts
    if (batch.records.length === 1 || !helpsToHalve(error, settings)) return false
    input.batcher.putBack(batch)
    // Saved before smaller batches are sent, because a resumed run must cut the same batches.
    state.maxRecords = Math.ceil(batch.records.length / 2)
    this.#save()
    return true
  }

  /** Sets aside the only record of a rejected batch. Throws any other error, with the records that it concerns. */
  #skipRejected(batch: RecordBatch, error: unknown): void {
    const { settings, limits, state, input } = this.#parts
    const [record] = batch.records
    if (settings.skipInvalid === null || record === undefined || !isRejected(error)) {
      throw located(error, input.name, state, batch)
    }
    this.#skip([{ ...record, kind: 'invalid', reason: reasonOf(error) }])
    Object.assign(state, limits)
  }

  #skip(invalid: readonly InvalidPiece[]): void {
    const { progress, input } = this.#parts
    const { skipInvalid } = this.#parts.settings
    if (skipInvalid === null) throw invalidInput(input.name, invalid[0]!)
    putAside(skipInvalid, invalid)
    for (const { line, reason } of invalid.slice(0, Math.max(0, maxNotes - this.#skipped))) {
      progress.note(`${input.name}, line ${line}: ${reason}`)
    }
    this.#skipped += invalid.length
  }

  #save(): void {
    const { resume, settings, state } = this.#parts
    saveState(resume, settings.file, state)
  }
}

function startingState(
  settings: IngestSettings,
  resume: ResumeFile,
  pipe: IngestTarget,
  limits: BatchLimits,
): ResumeState {
  const earlier = settings.file === null || settings.again ? null : loadState(resume, settings.file)
  if (earlier === null || settings.file === null) return newState(limits)
  if (earlier.done && earlier.offset === statSync(settings.file).size) {
    throw nothingToDoFailure(
      `${settings.file} was sent to ${pipe.pipe_name} before (${earlier.records} records, ${earlier.savedAt}) and has not changed`,
      'add --again to send it once more',
    )
  }
  // The file has grown since it was sent. The new part is cut with the current limits.
  return earlier.done ? { ...earlier, ...limits, done: false } : earlier
}

interface Input {
  /** For messages. */
  name: string
  batcher: Batcher
  /** Null: not known, for stdin. */
  totalBytes: number | null
  bytesRead(): number
}

function openInput(settings: IngestSettings, state: ResumeState): Input {
  if (settings.file === null) {
    return {
      name: 'stdin',
      batcher: new Batcher(io().stdin, new StreamSplitter('stdin'), lingerMs),
      totalBytes: null,
      bytesRead: () => state.offset,
    }
  }
  const splitter = splitterForFile(settings.file, state)
  const stream = createReadStream(settings.file, { start: state.offset, highWaterMark: 256 * 1024 })
  const start = state.offset
  return {
    name: settings.file,
    batcher: new Batcher(stream, splitter, null),
    totalBytes: statSync(settings.file).size,
    bytesRead: () => start + stream.bytesRead,
  }
}

/**
 * One per line with the original bytes, so that the user can correct and send them. If the run is killed right after
 * this, the next one sets them aside again.
 */
function putAside(file: string, invalid: readonly InvalidPiece[]): void {
  const lines = invalid.map((piece) => Buffer.concat([piece.bytes, Buffer.from('\n')]))
  appendFileSync(file, Buffer.concat(lines), { mode: 0o600 })
}

function invalidInput(name: string, piece: InvalidPiece): Failure {
  if (looksLikeCsv(piece)) {
    return commandFailure(
      `${name}, line 1: ${piece.reason}. It looks like CSV, which pipectl does not read; nothing was sent`,
      'convert it to one JSON object per line, for example with `mlr --icsv --ojsonl cat FILE`',
    )
  }
  return commandFailure(
    `${name}, line ${piece.line}: ${piece.reason}; everything before it is accepted`,
    'correct that line and run the same command again (it continues there), or move such lines to another file with --skip-invalid FILE',
  )
}

/** True for a first line of values separated by commas, semicolons or tabs, without JSON objects or arrays. */
function looksLikeCsv({ line, bytes }: InvalidPiece): boolean {
  return line === 1 && /^[^{}[\]]*[,;\t][^{}[\]]*$/.test(bytes.toString('utf8'))
}

/** True if smaller batches help: the body was too large, or an unknown record of it was rejected. */
function helpsToHalve(error: unknown, settings: IngestSettings): boolean {
  if (!(error instanceof ApiFailure)) return false
  if (error.status === 413) return true
  return isRejected(error) && (settings.skipInvalid !== null || typeof error.body.record_index !== 'number')
}

/** True if the daemon rejects the content of a record. Sending it again cannot help. */
function isRejected(error: unknown): error is ApiFailure {
  return error instanceof ApiFailure && ['invalid_payload', 'missing_required_fields'].includes(error.code)
}

function reasonOf(error: ApiFailure): string {
  const { fields } = error.body
  return Array.isArray(fields) ? `${error.message}: ${fields.join(', ')}` : error.message
}

/** Adds the records of the input that an error concerns. */
function located(error: unknown, name: string, state: ResumeState, batch: RecordBatch): unknown {
  if (!(error instanceof ApiFailure) || error.status === 401 || error.status === 404) return error
  const { record_index: given } = error.body
  const index = typeof given === 'number' ? given : batch.records.length === 1 ? 0 : null
  const first = state.records + 1
  const record = batch.records[index ?? 0]
  const where = `${name}, line ${record?.line ?? state.lines + 1}`
  if (index !== null && isRejected(error)) {
    return new Failure(
      error.exitCode,
      `${where} (record ${first + index}): ${reasonOf(error)}; everything before record ${first} is accepted`,
      `${error.hint}; or move such lines to another file with --skip-invalid FILE`,
      error,
    )
  }
  return new Failure(
    error.exitCode,
    `${where} (records ${first} to ${state.records + batch.records.length}): ${reasonOf(error)}`,
    `${error.hint}; everything before record ${first} is accepted`,
    error,
  )
}

function interrupted(file: string | null, state: ResumeState): Failure {
  return new Failure(
    exitCodes.interrupted,
    `interrupted after ${state.records} records were accepted`,
    file === null
      ? 'input from a pipe cannot be resumed: put it into a file and use -f'
      : 'run the same command again to resume: nothing is sent twice',
  )
}

function nothingToSend(): Failure {
  return nothingToDoFailure(
    'the input has no record; nothing was sent',
    'give JSON objects with -f FILE or on stdin',
  )
}
