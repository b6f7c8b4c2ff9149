/**
 * The progress of sending a source: a small file under the XDG state directory, with which the same command continues
 * where an earlier run stopped. It is fsynced at most every 250 ms, and before anything that changes how the input is
 * cut.
 *
 * The truth about a request is its Idempotency-Key, which the daemon remembers for 24 hours. A run that is killed sends
 * the batches after the saved offset again, cut with the saved limits, under the same keys, and the daemon stores each
 * only once. A key consists of the identity of the source, its version (or a random id with --again), the offset and the
 * content, so even a run without its state stores nothing twice within these 24 hours.
 *
 *   crash after …                    on disk                next run
 *   a batch was cut                  older offset, limits   cuts the same batch
 *   it was accepted (202)            older offset, limits   sends it again: the daemon responds with the first 202
 *   the new offset was saved         new offset             continues there
 *   a batch is rejected: before its  the part size and the  sends the parts again that were accepted, under the same
 *   first part is sent               end of the batch       keys; batches after it are cut as before
 *   records were set aside           older offset           sets them aside again
 */
import { createHash, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { isObject } from '../../../contract/is-object.ts'
import { replaceFile, stateDir } from '../profile-store.ts'
import type { BatchLimits } from './batcher.ts'
import { digest } from './digest.ts'
import { fromTheStart, type StartAt } from './input.ts'
import type { Source } from './source.ts'

/** A rejected batch is sent in parts of so many records, up to the offset where it ends. */
export interface UnfinishedBatch {
  records: number
  end: number
}

export interface ResumeState extends StartAt, BatchLimits {
  run: string
  /** Covers the content before the offset: see StoredSource. */
  fingerprint: string
  unfinished: UnfinishedBatch | null
  /** The complete input was sent. */
  done: boolean
  savedAt: string
}

export interface ResumeFile {
  /** The path of the state. Null for an input that cannot be read again (a pipe). */
  file: string | null
  identity: string
}

/** The path of the state for one source, one daemon and one pipe. */
export function resumeFileOf(
  source: Source,
  url: string,
  pipeId: string,
  env: NodeJS.ProcessEnv,
): ResumeFile {
  const { identity } = source
  if (identity === null) return { file: null, identity: randomUUID() }
  const name = `${digest([identity, url, pipeId]).slice(0, 32)}.json`
  return { file: path.join(stateDir(env), 'ingest', name), identity }
}

/** `again`: the run is not the same as an earlier one of the same content. */
export function newState(source: Source, limits: BatchLimits, again: boolean): ResumeState {
  const run = again ? randomUUID() : digest([source.version])
  return { ...fromTheStart, ...limits, run, fingerprint: '', unfinished: null, done: false, savedAt: '' }
}

/** The saved state, if it belongs to this content. Null: there is none, or the source was replaced. */
export function loadState(resume: ResumeFile, source: Source): ResumeState | null {
  if (resume.file === null) return null
  let value: unknown
  try {
    value = JSON.parse(readFileSync(resume.file, 'utf8'))
  } catch {
    return null
  }
  if (!isObject(value) || value.version !== 1) return null
  const { run, fingerprint, offset, records, lines, insideArray, maxRecords, maxBytes, done, savedAt } = value
  if (typeof run !== 'string' || typeof fingerprint !== 'string' || typeof offset !== 'number') return null
  if (typeof records !== 'number' || typeof lines !== 'number') return null
  if (typeof maxRecords !== 'number' || typeof maxBytes !== 'number') return null
  if (source.canGrow && (source.size ?? 0) < offset) return null
  if (source.fingerprint(offset) !== fingerprint) return null
  return {
    run,
    fingerprint,
    offset,
    records,
    lines,
    insideArray: insideArray === true,
    maxRecords,
    maxBytes,
    unfinished: unfinishedOf(value.unfinished),
    done: done === true,
    savedAt: String(savedAt),
  }
}

function unfinishedOf(value: unknown): UnfinishedBatch | null {
  if (!isObject(value)) return null
  const { records, end } = value
  return typeof records === 'number' && typeof end === 'number' ? { records, end } : null
}

/** Replaces the state atomically and durably. */
export function saveState(resume: ResumeFile, source: Source, state: ResumeState): void {
  if (resume.file === null) return
  const saved = { version: 1, input: source.name, ...state }
  saved.fingerprint = source.fingerprint(state.offset)
  saved.savedAt = new Date().toISOString()
  replaceFile(resume.file, JSON.stringify(saved), true)
}

/** The Idempotency-Key of the body whose first record follows this offset. */
export function idempotencyKey(resume: ResumeFile, run: string, offset: number, body: Buffer): string {
  return digest([resume.identity, run, String(offset), createHash('sha256').update(body).digest('hex')])
}
