/**
 * `pipectl ingest`, the work: input → records → batches → the daemon, one batch at a time so that records keep their
 * order. After every 202 the new offset is saved; an interruption at any point loses and doubles nothing.
 */
import { createReadStream, statSync } from 'node:fs'
import type { Client } from '../../client/client.ts'
import { ApiFailure, exitCodes, Failure } from '../../client/failure.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { Batcher, type BatchLimits, bodyOf, type RecordBatch } from './batcher.ts'
import { openProgress, type Progress } from './progress.ts'
import { RecordSplitter } from './record-splitter.ts'
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
  /** A file, or null for stdin. */
  file: string | null
  maxRecords: number | null
  maxBytes: number
  gzip: boolean
  patienceMs: number
  /** Send a file that was wholly sent before once more. */
  again: boolean
  env: NodeJS.ProcessEnv
  signal: AbortSignal
}

export interface IngestResult {
  records: number
  requests: number
  /** Records that earlier runs of the same command had sent. */
  resumedAfter: number
}

const defaultMaxRecords = 1000
/** How long live input may stay quiet before a batch that is not full is sent. */
const lingerMs = 500

/** Sends everything. Throws Failure; an interruption (the signal) throws one with exit code 130. */
export async function runIngest(client: Client, pipe: Pipe, settings: IngestSettings): Promise<IngestResult> {
  const { limits, allowed_origins: origins } = (await client.pipes.get(pipe.pipe_id)).body
  const perRequest = limits?.pl_ingest_max_records_per_request ?? Number.MAX_SAFE_INTEGER
  const maxRecords = Math.min(settings.maxRecords ?? defaultMaxRecords, perRequest)
  const resume = resumeFileOf(settings.file, client.url, pipe.pipe_id, settings.env)
  const state = startingState(settings, resume, pipe, { maxRecords, maxBytes: settings.maxBytes })
  const resumedAfter = state.records
  const input = openInput(settings, state)
  const progress = openProgress(input.totalBytes, state.offset)
  if (resumedAfter > 0) progress.note(`Going on after record ${resumedAfter}, which an earlier run sent.`)
  const save = () => saveState(resume, settings.file, state)
  const origin = pipe.pipe_api_key_required ? null : (origins[0]?.origin_domain ?? 'http://localhost')
  const send = { ...settings, origin, onWait: waiting(progress) }
  let requests = 0
  try {
    save()
    for (let batch = await input.batcher.next(state); batch; batch = await input.batcher.next(state)) {
      const body = bodyOf(batch)
      try {
        await sendBatch(client, pipe.pipe_id, body, idempotencyKey(resume, state, body), send)
      } catch (error) {
        if (!isTooLarge(error) || batch.records.length === 1) throw located(error, state, batch)
        input.batcher.putBack(batch)
        // Saved before anything is sent in smaller batches: a resumed run must cut the same ones.
        state.maxRecords = Math.ceil(batch.records.length / 2)
        save()
        continue
      }
      requests += 1
      state.offset = batch.end
      state.records += batch.records.length
      state.insideArray = input.batcher.insideArray
      // The limits of the run that was interrupted were needed for its unfinished batch alone.
      if (requests === 1 && resumedAfter > 0)
        Object.assign(state, { maxRecords, maxBytes: settings.maxBytes })
      save()
      progress.update(state.offset, state.records)
    }
  } catch (error) {
    throw settings.signal.aborted ? interrupted(settings.file, state) : error
  } finally {
    progress.end()
  }
  if (state.records === 0) throw nothingToSend()
  Object.assign(state, { offset: input.bytesRead(), insideArray: false, done: true })
  save()
  return { records: state.records - resumedAfter, requests, resumedAfter }
}

function startingState(
  settings: IngestSettings,
  resume: ResumeFile,
  pipe: Pipe,
  limits: BatchLimits,
): ResumeState {
  const earlier = settings.file === null || settings.again ? null : loadState(resume, settings.file)
  if (earlier === null || settings.file === null) return newState(limits)
  if (earlier.done && earlier.offset === statSync(settings.file).size) {
    throw new Failure(
      exitCodes.nothingToDo,
      `${settings.file} was sent to ${pipe.pipe_name} before (${earlier.records} records, ${earlier.savedAt}) and has not changed`,
      'add --again to send it once more',
    )
  }
  // A file that has grown since it was sent: the rest is cut by the limits of today.
  return earlier.done ? { ...earlier, ...limits, done: false } : earlier
}

function openInput(settings: IngestSettings, state: ResumeState) {
  const splitter = new RecordSplitter(state)
  if (settings.file === null) {
    return {
      batcher: new Batcher(process.stdin, splitter, lingerMs),
      totalBytes: null,
      bytesRead: () => state.offset,
    }
  }
  const stream = createReadStream(settings.file, { start: state.offset, highWaterMark: 256 * 1024 })
  const start = state.offset
  return {
    batcher: new Batcher(stream, splitter, null),
    totalBytes: statSync(settings.file).size,
    bytesRead: () => start + stream.bytesRead,
  }
}

function waiting(progress: Progress): (reason: string, waitMs: number) => void {
  return (reason, waitMs) => progress.note(`${reason}; trying again in ${Math.ceil(waitMs / 1000)} s`)
}

function isTooLarge(error: unknown): boolean {
  return error instanceof ApiFailure && error.status === 413
}

/** Says which records of the input an answer is about. */
function located(error: unknown, state: ResumeState, batch: RecordBatch): unknown {
  if (!(error instanceof ApiFailure) || error.status === 401 || error.status === 404) return error
  const { record_index: index, fields } = error.body
  const first = state.records + 1
  const which =
    typeof index === 'number'
      ? `record ${first + index}`
      : `records ${first} to ${state.records + batch.records.length}`
  const missing = Array.isArray(fields) ? `: ${fields.join(', ')}` : ''
  return new Failure(
    error.exitCode,
    `${which} of the input: ${error.message}${missing}`,
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
  return new Failure(
    exitCodes.nothingToDo,
    'the input holds no record; nothing was sent',
    'give JSON objects with -f FILE or on stdin',
  )
}
