/**
 * The idempotency keys of the last 24 h, a lookup derived from the message rows. The rows are the source of truth: a
 * key is written in its message's row, in the same transaction, and this file follows after the commit. Missing entries
 * (after a crash, or when the file is lost or damaged) are derived from the rows again.
 *
 * Use: `find` before a message is committed, `takeShare` for a free key, `remember` after the commit, `flush`
 * periodically and before a segment is removed, `measure` each second.
 *
 * Bounds. The keys do not count towards `buffer.max_bytes`, so they never stop ingest. They have their own limit, a
 * twentieth of it, shared like the buffer (fair-share.ts): above 80 %, a pipe or workspace that holds more than its
 * equal share gets 503 `idempotency_full` for requests with a key; others are not affected. Keys are stored as hashes.
 * Old keys are dropped as whole tables, so any rate of keys is sustained (key-lookup.ts).
 *
 * Invariants. A message with a key is committed only after `find` returned null for it. Only the writer's thread reads
 * or writes the file. A key that `find` does not know is in no row younger than 24 h. `flush` returns true only when
 * every key up to `throughSeq` is on disk.
 *
 * The keys outlive the segments: a key counts for its 24 h even when its message was delivered and dropped. So `flush`
 * makes everything durable before a segment is removed.
 *
 * The 24 h are measured by the buffer's clock (high-water.ts), so a jump of the wall clock has no effect. A key that is
 * derived again counts from the end of its segment, at the latest from now: never for less than 24 h.
 *
 *   | the process ends or the power fails …      | the file has                  | after the start                   |
 *   |--------------------------------------------|-------------------------------|-----------------------------------|
 *   | after the commit, before `remember`        | all but the newest            | derived from the rows             |
 *   | after `remember`, before a flush           | what of it reached the disk   | derived from the rows             |
 *   | before the segment is removed (flushed)    | everything                    | everything                        |
 *   | after the segment was removed              | everything                    | everything                        |
 *   | during a rebuild after damage              | a part, flushed through seq 0 | derived from the rows             |
 *   | after tables were dropped, before the sync | both, or neither              | dropped by the next flush         |
 */
import { rmSync, statSync } from 'node:fs'
import { errorCode } from '../../platform/error-code.ts'
import type { Logger } from '../../platform/log.ts'
import { isReadFailure } from '../../platform/storage-error.ts'
import { FairShare, pressedFrom } from '../fair-share.ts'
import { keyLifetimeMs, type PipeKey } from '../key-store.ts'
import { KeyLookup, keyBytes, type UsedKey } from './key-lookup.ts'
import { keyedRowsSince } from './keyed-rows.ts'
import { setAsideUnreadable } from './layout.ts'
import type { KeyedMessage } from './segment-writer.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

/** The part of buffer.max_bytes that is reserved for keys. */
const spacePart = 1 / 20
const minSpaceBytes = 1024 * 1024

export interface KeysSpec {
  /** The buffer's directory. */
  dir: string
  file: string
  /** The newest existing message. Keys of later, missing messages are deleted. */
  headSeq: number
  /** The current time of the buffer's clock. */
  clockMs: number
  /** The size limit of the buffer. */
  maxBytes: number
}

/** Rebuilds a damaged file. Throws a disk-full error when there is no room to open it. */
export function openIdempotencyKeys(spec: KeysSpec, log: Logger): IdempotencyKeys {
  const keys = new IdempotencyKeys(spec, log)
  try {
    keys.open()
    return keys
  } catch (error) {
    keys.close()
    throw error
  }
}

export class IdempotencyKeys {
  readonly #spec: KeysSpec
  readonly #log: Logger
  #lookup: KeyLookup | null = null
  /** Keys that are committed but not in the file yet. Empty unless the disk is full. */
  readonly #unwritten = new Map<string, UsedKey>()
  /** Keys were written since the last flush. */
  #isDirty = false
  #flushedSeq = -1
  readonly #maxBytes: number
  /** Null while there is room for the keys of all pipes. */
  #share: FairShare | null = null

  constructor(spec: KeysSpec, log: Logger) {
    this.#spec = spec
    this.#log = log
    this.#maxBytes = Math.max(minSpaceBytes, spec.maxBytes * spacePart)
  }

  /** Disk space of the keys. */
  get bytes(): number {
    return this.#lookup?.bytes ?? 0
  }

  /** Runs each second. `workspaces`: the workspace of every existing pipe. */
  measure(workspaces: Iterable<[pipeId: string, workspaceId: string]>): void {
    if (this.#lookup === null || this.bytes < this.#maxBytes * pressedFrom) {
      this.#share = null
      return
    }
    const held = [...this.#lookup.held()].map(([pipeId, keys]) => [pipeId, keys * keyBytes] as const)
    this.#share = new FairShare(this.#maxBytes, new Map(held), workspaces)
  }

  /** For a new key. Returns false when the pipe or its workspace has used up its share of the space for keys. */
  takeShare(pipeId: string): boolean {
    return this.#share === null || this.#share.take(pipeId, keyBytes)
  }

  open(): void {
    const { clockMs, headSeq } = this.#spec
    this.#use(clockMs, (lookup) => {
      lookup.forgetAfter(headSeq)
      this.#derive(lookup, Math.min(lookup.throughSeq, headSeq), clockMs)
    })
  }

  /** Returns null when the key is free. */
  find(pipeKey: PipeKey, clockMs: number): KeyedMessage | null {
    const used =
      this.#unwritten.get(pipeKey.pipeId + pipeKey.key) ??
      this.#use(clockMs, (lookup) => lookup.find(pipeKey))
    return used === null || clockMs - used.usedClockMs > keyLifetimeMs ? null : used
  }

  /** Called after the commit of these messages: at least one. */
  remember(used: readonly KeyedMessage[], clockMs: number): void {
    for (const message of used)
      this.#unwritten.set(message.pipeId + message.key, { ...message, usedClockMs: clockMs })
    this.#isDirty = true
    // The messages are committed and must be acknowledged, so keys that a full disk has no room for wait in memory.
    this.#unlessFull(() => this.#use(clockMs, (lookup) => lookup.write(this.#unwritten.values())))
  }

  /**
   * Called periodically and before a segment is removed. When it returns true, every key up to `throughSeq` is on disk
   * and the next start need not read older rows. False: the disk is full, and keys would be lost.
   */
  flush(throughSeq: number, clockMs: number): boolean {
    if (!this.#isDirty && throughSeq === this.#flushedSeq) return true
    const isFlushed = this.#unlessFull(() =>
      this.#use(clockMs, (lookup) =>
        lookup.flush(this.#unwritten.values(), throughSeq, clockMs - keyLifetimeMs),
      ),
    )
    // Without new keys, the next start can find all of them.
    if (!isFlushed) return !this.#isDirty
    this.#isDirty = false
    this.#flushedSeq = throughSeq
    this.#unlessFull(() => this.#use(clockMs, (lookup) => lookup.checkpoint()))
    return true
  }

  close(): void {
    this.#lookup?.close()
    this.#lookup = null
  }

  /** Runs an operation on the file. If the file is damaged, it is rebuilt and the operation repeated once. */
  #use<T>(clockMs: number, work: (lookup: KeyLookup) => T): T {
    try {
      this.#lookup ??= new KeyLookup(this.#spec.file)
      return work(this.#lookup)
    } catch (error) {
      if (!isDamaged(this.#spec.file, error)) throw error
      this.#log.warn({ file: this.#spec.file, err: error }, 'buffer.idempotency_rebuilt')
      return work(this.#rebuild(clockMs, error))
    }
  }

  #rebuild(clockMs: number, error: unknown): KeyLookup {
    const { file } = this.#spec
    this.close()
    if (isReadFailure(error)) setAsideUnreadable(file)
    for (const suffix of ['', '-wal', '-shm', '-journal'])
      rmSync(file + suffix, { force: true, recursive: true })
    this.#lookup = new KeyLookup(this.#spec.file)
    this.#derive(this.#lookup, 0, clockMs)
    return this.#lookup
  }

  #derive(lookup: KeyLookup, afterSeq: number, clockMs: number): void {
    const { dir } = this.#spec
    const onUnreadable = (firstSeq: number, error: unknown) =>
      this.#log.warn({ first_seq: firstSeq, err: error }, 'buffer.idempotency_keys_unreadable')
    for (const used of keyedRowsSince(dir, afterSeq, clockMs, onUnreadable)) {
      if (used.length > 0) this.#isDirty = true
      lookup.write(used)
    }
  }

  /** Returns false when there was no room; then nothing was done. */
  #unlessFull(work: () => void): boolean {
    try {
      work()
    } catch (error) {
      if (!isDiskFull(error)) throw error
      return false
    }
    this.#unwritten.clear()
    return true
  }
}

/** True as well for a directory in its place, another program's database, and an unreadable sector. */
function isDamaged(file: string, error: unknown): boolean {
  const code = errorCode(error) ?? ''
  if (code === 'SQLITE_CANTOPEN') return statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false
  return isDamage(error) || code === 'SQLITE_ERROR' || code === 'SQLITE_MISMATCH'
}
