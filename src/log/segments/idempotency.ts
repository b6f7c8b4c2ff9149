/**
 * Which idempotency keys were used in the last 24 h: a look-up derived from the message rows, which alone are the
 * truth. A key is written in its message's row in the same transaction; this file follows after the commit. What it
 * lacks after a crash (or altogether, when it is gone or damaged) is derived again from the rows with a key.
 *
 * Interface: `find` before a message is committed, `takeShare` for a key that is free, `remember` after the commit, `flush`
 * now and then and before a segment goes, `measure` each second.
 *
 * Bounds. The keys are no part of `buffer.max_bytes`, so they never stop ingest; they have a space of their own, a
 * twentieth of it, shared as the buffer is (fair-share.ts): from 80 % on, a pipe that holds more than its equal share, or
 * whose workspace does, gets 503 `idempotency_full` for requests with a key, and the others go on. Keys are stored as
 * hashes, and dropped by whole tables when they are too old (key-lookup.ts): at any rate.
 *
 * Invariants. A message with a key is committed only after `find` returned null for it, on the writer's thread, which is
 * the only one that reads or writes the file. What `find` does not know is in no row younger than 24 h. `flush` returns
 * true only when every key up to `throughSeq` is on disk.
 *
 * It outlives the segments: a key counts for its 24 h even when its message was delivered and dropped. So before a
 * segment goes, `flush` puts everything on disk.
 *
 * The 24 h are those of the buffer's clock (high-water.ts): a wall clock that jumps forgets nothing, and brings nothing
 * back. A key derived again counts from the end of its segment, at the latest from now: never for less than 24 h.
 *
 *   | the process ends or the power fails …      | the file has                  | after the start                   |
 *   |--------------------------------------------|-------------------------------|-----------------------------------|
 *   | after the commit, before `remember`        | all but the newest            | derived from the rows             |
 *   | after `remember`, before a flush           | what of it reached the disk   | derived from the rows             |
 *   | after the flush, before the segment goes   | everything                    | everything                        |
 *   | after the segment went                     | everything                    | everything                        |
 *   | while it is made again after damage        | a part, flushed through seq 0 | derived from the rows             |
 *   | after tables were dropped, before the sync | both, or neither              | dropped by the next flush         |
 */
import { rmSync, statSync } from 'node:fs'
import { errorCode } from '../../platform/error-code.ts'
import type { Logger } from '../../platform/log.ts'
import { isReadFailure } from '../../platform/storage-error.ts'
import { FairShare, pressedFrom } from '../fair-share.ts'
import { keyLifetimeMs } from '../key-store.ts'
import type { KeyedMessage } from './frame-commit.ts'
import { KeyLookup, keyBytes, type UsedKey } from './key-lookup.ts'
import { keyedRowsSince } from './keyed-rows.ts'
import { setAsideUnreadable } from './layout.ts'
import { isDamage, isDiskFull } from './sqlite-errors.ts'

/** The part of buffer.max_bytes for keys. */
const spacePart = 1 / 20
const leastSpaceBytes = 1024 * 1024

export interface KeysSpec {
  /** The buffer's. */
  dir: string
  file: string
  /** The newest message that is there. Keys of messages that are missing are forgotten. */
  headSeq: number
  /** The buffer's clock, now. */
  clockMs: number
  /** The limit of the buffer. */
  maxBytes: number
}

/** A damaged file is made again. Throws a disk-full error where there is no room to open it. */
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
  /** Committed, but not in the file yet. Empty unless the disk is full. */
  readonly #unwritten = new Map<string, UsedKey>()
  /** Keys were written since the last flush. */
  #isDirty = false
  #flushedSeq = -1
  readonly #maxBytes: number
  readonly #share: FairShare

  constructor(spec: KeysSpec, log: Logger) {
    this.#spec = spec
    this.#log = log
    this.#maxBytes = Math.max(leastSpaceBytes, spec.maxBytes * spacePart)
    this.#share = new FairShare(this.#maxBytes)
  }

  /** The bytes of the keys on disk. */
  get bytes(): number {
    return this.#lookup?.bytes ?? 0
  }

  /** Each second. `workspaces`: of every pipe that exists. */
  measure(workspaces: Iterable<[pipeId: string, workspaceId: string]>): void {
    if (this.#lookup === null || this.bytes < this.#maxBytes * pressedFrom) {
      this.#share.release()
      return
    }
    const held = [...this.#lookup.held()].map(([pipeId, keys]) => [pipeId, keys * keyBytes] as const)
    this.#share.measured(new Map(held), workspaces)
  }

  /** For a new key. False: the pipe, or its workspace, has used its share of the space for keys. */
  takeShare(pipeId: string): boolean {
    return this.#share.take(pipeId, keyBytes)
  }

  open(): void {
    const { clockMs, headSeq } = this.#spec
    this.#use(clockMs, (lookup) => {
      lookup.forgetAfter(headSeq)
      this.#derive(lookup, Math.min(lookup.throughSeq, headSeq), clockMs)
    })
  }

  /** Null when the key is free. */
  find(pipeId: string, key: string, clockMs: number): KeyedMessage | null {
    const used = this.#unwritten.get(pipeId + key) ?? this.#use(clockMs, (lookup) => lookup.find(pipeId, key))
    return used === null || clockMs - used.usedClockMs > keyLifetimeMs ? null : used
  }

  /** After the commit of these messages. */
  remember(used: readonly KeyedMessage[], clockMs: number): void {
    for (const message of used)
      this.#unwritten.set(message.pipeId + message.key, { ...message, usedClockMs: clockMs })
    if (this.#unwritten.size === 0) return
    this.#isDirty = true
    // The messages are committed and must be acknowledged: on a full disk the keys wait in memory for space.
    this.#unlessFull(() => this.#use(clockMs, (lookup) => lookup.write(this.#unwritten.values())))
  }

  /**
   * Now and then, and before a segment goes: every key up to `throughSeq` is on disk when this returns true, and the next
   * start need not look before it. False: the disk is full, and keys would be lost.
   */
  flush(throughSeq: number, clockMs: number): boolean {
    if (!this.#isDirty && throughSeq === this.#flushedSeq) return true
    const isFlushed = this.#unlessFull(() =>
      this.#use(clockMs, (lookup) =>
        lookup.flush(this.#unwritten.values(), throughSeq, clockMs - keyLifetimeMs),
      ),
    )
    // Without new keys there is nothing that the next start could not find.
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

  /** Runs what works on the file; on a damaged one once more, when it was made again. */
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

  /** False: there was no room; nothing of it was done. */
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

/** Also a directory in its place, another program's database, and a sector that cannot be read. */
function isDamaged(file: string, error: unknown): boolean {
  const code = errorCode(error) ?? ''
  if (code === 'SQLITE_CANTOPEN') return statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false
  return isDamage(error) || code === 'SQLITE_ERROR' || code === 'SQLITE_MISMATCH'
}
