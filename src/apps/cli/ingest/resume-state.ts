/**
 * The progress of sending a file: a small file under the XDG state directory, with which the same command continues
 * where an earlier run stopped.
 *
 * If the program crashes between the daemon's 202 and saving the new offset, the next run sends that batch again. It
 * is cut with the same limits (saved before their first use) and has the same Idempotency-Key, so the daemon stores
 * it only once. The key is derived from the identity of the file, the run, the offset and the content. The random id
 * of the run distinguishes two machines with equal paths and contents.
 */
import { createHash, randomUUID } from 'node:crypto'
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { isObject } from '../../../contract/is-object.ts'
import { replaceFile, stateDir } from '../profile-store.ts'
import type { BatchLimits } from './batcher.ts'
import { fromTheStart, type StartAt } from './input.ts'

export interface ResumeState extends StartAt, BatchLimits {
  run: string
  /** Covers the first bytes of the file and the bytes just before the offset. An append changes neither. */
  fingerprint: string
  /** The complete input was sent. */
  done: boolean
  savedAt: string
}

export interface ResumeFile {
  /** The path of the state. Null for an input that cannot be read again (a pipe). */
  file: string | null
  identity: string
}

const fingerprintBytes = 64 * 1024

/** The path of the state for one input, one daemon and one pipe. */
export function resumeFileOf(
  input: string | null,
  url: string,
  pipeId: string,
  env: NodeJS.ProcessEnv,
): ResumeFile {
  if (input === null) return { file: null, identity: randomUUID() }
  // Does not use the inode, because an editor that corrects a line creates a file with a new one.
  const identity = digest([os.hostname(), path.resolve(input)])
  const name = `${digest([identity, url, pipeId]).slice(0, 32)}.json`
  return { file: path.join(stateDir(env), 'ingest', name), identity }
}

export function newState(limits: BatchLimits): ResumeState {
  return { ...fromTheStart, ...limits, run: randomUUID(), fingerprint: '', done: false, savedAt: '' }
}

/** The saved state, if it belongs to this content. Null: there is none, or the file was replaced. */
export function loadState(resume: ResumeFile, input: string): ResumeState | null {
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
  if (statSync(input).size < offset || fingerprintOf(input, offset) !== fingerprint) return null
  return {
    run,
    fingerprint,
    offset,
    records,
    lines,
    insideArray: insideArray === true,
    maxRecords,
    maxBytes,
    done: done === true,
    savedAt: String(savedAt),
  }
}

/** Replaces the state atomically. */
export function saveState(resume: ResumeFile, input: string | null, state: ResumeState): void {
  if (resume.file === null || input === null) return
  const saved = { version: 1, input: path.resolve(input), ...state }
  saved.fingerprint = fingerprintOf(input, state.offset)
  saved.savedAt = new Date().toISOString()
  replaceFile(resume.file, JSON.stringify(saved))
}

/** The Idempotency-Key of the batch that starts at this offset. */
export function idempotencyKey(resume: ResumeFile, state: ResumeState, body: Buffer): string {
  return digest([
    resume.identity,
    state.run,
    String(state.offset),
    createHash('sha256').update(body).digest('hex'),
  ])
}

function fingerprintOf(input: string, offset: number): string {
  const fd = openSync(input, 'r')
  try {
    const hash = createHash('sha256')
    hash.update(readRange(fd, 0, Math.min(offset, fingerprintBytes)))
    hash.update(readRange(fd, Math.max(0, offset - fingerprintBytes), offset))
    return hash.digest('hex')
  } finally {
    closeSync(fd)
  }
}

function readRange(fd: number, from: number, to: number): Buffer {
  const buffer = Buffer.alloc(to - from)
  const read = readSync(fd, buffer, 0, buffer.length, from)
  return buffer.subarray(0, read)
}

function digest(parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${part.length}:${part}`)
  return hash.digest('hex')
}
