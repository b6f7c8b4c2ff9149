/**
 * The work of `pipectl ingest`: sources → records → batches → daemon. Sources are sent one after another. Each has a
 * state of its own, so that an interruption at any point neither loses nor duplicates a record.
 */
import type { Pipe } from '../../../contract/pipe.ts'
import type { Client, PipeDetail } from '../../client/client.ts'
import { nothingToDoFailure } from '../../client/failure.ts'
import { type IngestProgress, openIngestProgress } from '../progress.ts'
import { tryingAgain } from '../retry.ts'
import type { BatchLimits } from './batcher.ts'
import { loadState, newState, type ResumeFile, type ResumeState, resumeFileOf } from './resume-state.ts'
import { sendBatch } from './send-batch.ts'
import type { IngestResult, IngestSettings } from './settings.ts'
import { openFile, openSource, openStdin, type Source, type StoredSource } from './source.ts'
import { SourceRun } from './source-run.ts'

const defaultMaxRecords = 1000

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
  let progress: IngestProgress | null = null
  const onWait = (reason: string, waitMs: number) => progress?.note(tryingAgain(reason, waitMs))
  const stored = await storedSources(settings, onWait)
  progress = openIngestProgress(totalBytes(stored))
  const sending = { ...settings, origin, onWait }
  const run = new IngestRun({
    settings,
    limits,
    progress,
    stateOf: (source) => resumeFileOf(source, client.url, pipe.pipe_id, settings.env),
    send: (request) => sendBatch(client, pipe.pipe_id, request, sending),
    pipeName: pipe.pipe_name,
  })
  try {
    return await run.all(stored)
  } finally {
    progress.end()
    for (const source of stored) source.close()
  }
}

async function storedSources(
  { inputs, endpoint, env, signal, patienceMs }: IngestSettings,
  onWait: (reason: string, waitMs: number) => void,
): Promise<StoredSource[]> {
  if (inputs.length === 0) return [openStdin()]
  const sources: StoredSource[] = []
  for (const input of inputs) {
    if (input === '-') sources.push(openStdin())
    else if (!input.startsWith('s3://')) sources.push(openFile(input))
    else {
      const { openS3 } = await import('./s3-source.ts')
      sources.push(...(await openS3(input, { endpoint, env, signal, patienceMs, onWait })))
    }
  }
  return sources
}

function totalBytes(sources: readonly StoredSource[]): number | null {
  let total = 0
  for (const { size } of sources) {
    if (size === null) return null
    total += size
  }
  return total
}

interface RunParts {
  settings: IngestSettings
  limits: BatchLimits
  progress: IngestProgress
  pipeName: string
  stateOf(source: Source): ResumeFile
  send(request: { body: Buffer; key: string }): Promise<void>
}

class IngestRun {
  readonly #parts: RunParts
  readonly #result: IngestResult = {
    records: 0,
    requests: 0,
    resumedAfter: 0,
    skipped: 0,
    sources: 0,
    sentBefore: 0,
  }

  constructor(parts: RunParts) {
    this.#parts = parts
  }

  async all(stored: readonly StoredSource[]): Promise<IngestResult> {
    const result = this.#result
    for (const one of stored) {
      await this.#one(await openSource(one), stored.length === 1)
      one.close()
    }
    if (result.sentBefore === stored.length) {
      throw nothingToDoFailure(
        `all ${stored.length} files were sent to ${this.#parts.pipeName} before and have not changed`,
        'add --again to send them once more',
      )
    }
    if (result.records === 0 && result.skipped === 0 && result.resumedAfter === 0) throw nothingToSend()
    return result
  }

  async #one(source: Source, isOnly: boolean): Promise<void> {
    const { settings, limits, progress, pipeName, stateOf, send } = this.#parts
    const result = this.#result
    result.sources += 1
    const resume = stateOf(source)
    const earlier = settings.again ? null : loadState(resume, source)
    if (earlier !== null && isComplete(earlier, source)) {
      if (isOnly) {
        throw nothingToDoFailure(
          `${source.name} was sent to ${pipeName} before (${earlier.records} records, ${earlier.savedAt}) and has not changed`,
          'add --again to send it once more',
        )
      }
      result.sentBefore += 1
      progress.sourceDone(source.size ?? 0)
      return
    }
    const state = stateFrom(earlier, source, limits, settings.again)
    const run = new SourceRun({ settings, resume, state, source, progress, send, sent: result })
    await run.run()
    progress.sourceDone(source.size ?? 0)
  }
}

function isComplete(state: ResumeState, source: Source): boolean {
  return state.done && (!source.canGrow || state.offset === source.size)
}

/** If the file has grown since it was sent, the new part is cut with the current limits. */
function stateFrom(
  earlier: ResumeState | null,
  source: Source,
  limits: BatchLimits,
  again: boolean,
): ResumeState {
  if (earlier === null) return newState(source, limits, again)
  return earlier.done ? { ...earlier, ...limits, unfinished: null, done: false } : earlier
}

function nothingToSend() {
  return nothingToDoFailure(
    'the input has no record; nothing was sent',
    'give records with a file, an s3:// address, or on stdin',
  )
}
