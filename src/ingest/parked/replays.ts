/**
 * Replays of records parked at a pipe: each becomes a message of its own, checked and enriched as an ingested record is.
 * Steps and crashes: metadata/pipe-parked-port.ts. Limits and quotas are not applied, because the record was counted when
 * it was parked.
 */
import assert from 'node:assert'
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from '../../contract/errors.ts'
import type { SchemaFault } from '../../contract/pipe-parked.ts'
import { type Appender, BufferUnavailableError } from '../../log/buffer.ts'
import type { Directory, DirectoryPipe } from '../../metadata/directory-source.ts'
import type {
  PipeParkedPosition,
  PipeParkedSelector,
  PipeParkedStore,
  PipeParkedText,
} from '../../metadata/pipe-parked-port.ts'
import type { PipeRef } from '../../metadata/tables.ts'
import { newMsgId } from '../msg-ids.ts'
import { prepareBody } from '../prepare.ts'
import { parseToCheck } from '../schema/escaped-keys.ts'
import { loadPatterns, mismatchesOf, schemaRulesOf } from '../schema/record-check.ts'
import type { UsageObserver } from '../usage.ts'

export interface PipeReplayDeps {
  store: PipeParkedStore
  directory: Pick<Directory, 'pipe'>
  appender: Pick<Appender, 'append'>
  usage: Pick<UsageObserver, 'accepted'>
  maxKeys: number
  now(): number
}

interface Rejected {
  kind: 'rejected'
  error: ApiError
  /** Those of the schema. */
  faults: readonly SchemaFault[]
}

type Outcome = { kind: 'stored'; msgId: string } | Rejected | { kind: 'changed' }

interface Prepared {
  row: PipeParkedText
  body: Buffer
}

/** A replay of many records pauses after this time on the main thread. */
const pauseAfterMs = 5
/** How often a replay reads a record again that was edited meanwhile. */
const maxTries = 3

export class PipeReplays {
  readonly #deps: PipeReplayDeps
  readonly #running = new Set<Promise<unknown>>()
  #pause: Promise<void> | null = null
  #hasReplayed = false

  constructor(deps: PipeReplayDeps) {
    this.#deps = deps
  }

  /**
   * Does something while no replay of this process runs: those that run end before, and others wait. A row that is marked
   * as replaying is then one whose replay was interrupted by a crash. `hasReplayed`: this process has replayed rows before.
   */
  async withoutReplays<Result>(work: (hasReplayed: boolean) => Promise<Result>): Promise<Result> {
    while (this.#pause !== null) await this.#pause
    let end = () => {}
    this.#pause = new Promise((resolve) => {
      end = resolve
    })
    try {
      await Promise.allSettled(this.#running)
      return await work(this.#hasReplayed)
    } finally {
      this.#pause = null
      end()
    }
  }

  /** Throws `pipe_not_found`. */
  async faultsOf({ pipeId }: PipeRef, text: string): Promise<readonly SchemaFault[]> {
    return await faultsOf(this.#entry(pipeId), text)
  }

  /**
   * Returns the msg_id of the message that the record is now. Throws `parked_not_found`, `parked_mismatch` and the errors
   * of ingest.
   */
  async replay(pipe: PipeRef, parkedId: string, isForced: boolean): Promise<string> {
    for (let tries = 0; tries < maxTries; tries += 1) {
      const found = await this.#deps.store.get(pipe, parkedId)
      if (found === null) throw new ApiError('parked_not_found')
      const [outcome] = await this.#step(pipe, [found.text], isForced)
      if (outcome?.kind === 'rejected') {
        if (outcome.faults.length > 0) await this.#deps.store.noteFaults(pipe, parkedId, outcome.faults)
        throw outcome.error
      }
      if (outcome?.kind === 'stored') return outcome.msgId
    }
    throw new ApiError('parked_replaying')
  }

  /** Replays the selected records one step after the other. After an error, the earlier steps are done. */
  async replayMany(
    pipe: PipeRef,
    which: PipeParkedSelector,
    isForced: boolean,
  ): Promise<{ replayed: number; mismatched: number }> {
    const counts = { replayed: 0, mismatched: 0 }
    let after: PipeParkedPosition | null = null
    for (;;) {
      const rows = await this.#deps.store.texts(pipe, which, after)
      const last = rows.at(-1)
      if (last === undefined) return counts
      after = last.position
      for (const { kind } of await this.#step(pipe, rows, isForced)) {
        if (kind === 'stored') counts.replayed += 1
        if (kind === 'rejected') counts.mismatched += 1
      }
    }
  }

  #entry(pipeId: string): DirectoryPipe {
    const entry = this.#deps.directory.pipe(pipeId.toLowerCase())
    if (entry === undefined) throw new ApiError('pipe_not_found')
    return entry
  }

  async #step(pipe: PipeRef, rows: readonly PipeParkedText[], isForced: boolean): Promise<Outcome[]> {
    while (this.#pause !== null) await this.#pause
    this.#hasReplayed = true
    const running = this.#replayed(pipe, rows, isForced)
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  async #replayed(pipe: PipeRef, rows: readonly PipeParkedText[], isForced: boolean): Promise<Outcome[]> {
    const { store } = this.#deps
    const outcomes = new Map<string, Outcome>()
    const prepared: Prepared[] = []
    let begunMs = performance.now()
    for (const row of rows) {
      const done = await this.#prepare(this.#entry(pipe.pipeId), row, isForced)
      if (Buffer.isBuffer(done)) prepared.push({ row, body: done })
      else outcomes.set(row.parkedId, done)
      // A record can take 20 ms to check: as much time is left to other work.
      const busyMs = performance.now() - begunMs
      if (busyMs < pauseAfterMs) continue
      await delay(busyMs)
      begunMs = performance.now()
    }
    const begun = await store.beginReplays(
      pipe,
      prepared.map(({ row }) => row),
    )
    const ready = prepared.filter(({ row }) => begun.has(row.parkedId))
    for (const [id, msgId] of await this.#append(pipe, ready)) outcomes.set(id, { kind: 'stored', msgId })
    return rows.map(({ parkedId }) => outcomes.get(parkedId) ?? { kind: 'changed' })
  }

  /**
   * A replay that was interrupted is not checked again: the record can be in the log already.
   */
  async #prepare(entry: DirectoryPipe, row: PipeParkedText, isForced: boolean): Promise<Buffer | Rejected> {
    const { maxKeys } = this.#deps
    try {
      const faults = isForced || row.isReplaying ? [] : await faultsOf(entry, row.text)
      if (faults.length > 0) return mismatch(faults)
      const limits = { maxRecords: 1, maxKeys, maxValues: Number.POSITIVE_INFINITY }
      const { enrichment } = row
      const requiredFields = row.isReplaying ? [] : entry.requiredFields
      const rules = {
        limits,
        enrichment,
        requiredFields,
        pipeMaxRecords: null,
        withHash: false,
        schema: null,
      }
      const prepared = prepareBody(Buffer.from(row.text), { format: 'json', ...rules }, () => {})
      return prepared!.body
    } catch (error) {
      if (error instanceof ApiError) return { kind: 'rejected', error, faults: [] }
      throw error
    }
  }

  /** Appends rows that are marked as replaying, and removes them. Throws if one of them is not stored. */
  async #append(pipe: PipeRef, ready: readonly Prepared[]): Promise<[parkedId: string, msgId: string][]> {
    if (ready.length === 0) return []
    const { store } = this.#deps
    const results = await Promise.allSettled(ready.map((one) => this.#appendOne(pipe, one)))
    const idsOf = (is: (result: PromiseSettledResult<unknown>) => boolean) =>
      ready.flatMap(({ row }, index) => (is(results[index]!) ? [row.parkedId] : []))
    const notStored = idsOf((result) => result.status === 'rejected' && !mayBeStored(result.reason))
    const stored = idsOf((result) => result.status === 'fulfilled')
    if (notStored.length > 0) await store.releaseReplays(pipe, notStored)
    if (stored.length > 0) await store.endReplays(pipe, stored)
    return ready.map(({ row }, index) => {
      const result = results[index]!
      if (result.status === 'rejected') throw unavailable(result.reason)
      return [row.parkedId, result.value]
    })
  }

  async #appendOne({ workspaceId, pipeId }: PipeRef, { row, body }: Prepared): Promise<string> {
    const { appender, usage, now } = this.#deps
    const receivedMs = now()
    const appended = await appender.append({
      ...{ pipeId, workspaceId, msgId: newMsgId(), receivedMs, recordCount: 1, body },
      // A client cannot send this key, because of its line feed.
      idempotency: { key: `parked\n${row.parkedId}`, bodyHash: 'parked' },
    })
    if (!appended.repeated)
      usage.accepted(pipeId, receivedMs, { messages: 1, records: 1, bytes: body.length })
    return appended.msgId
  }
}

/**
 * Returns why the record does not match the schema of the pipe. Empty: it matches. The check has the steps of a body on
 * this thread; a record that needs more can be replayed with `force`.
 */
async function faultsOf(entry: DirectoryPipe, text: string): Promise<readonly SchemaFault[]> {
  const rules = schemaRulesOf(entry)
  if (rules === null) return []
  await loadPatterns(rules)
  const found = mismatchesOf([parseToCheck(text)], { ...rules, onMismatch: 'park', isInTurn: false })
  assert(found !== 'elsewhere', 'it is checked here')
  return found?.byRecord.get(0) ?? []
}

function mismatch(faults: readonly SchemaFault[]): Rejected {
  const error = new ApiError('parked_mismatch', { details: { errors: faults } })
  return { kind: 'rejected', error, faults }
}

function mayBeStored(error: unknown): boolean {
  return !(error instanceof BufferUnavailableError) || error.mayBeStored
}

function unavailable(error: unknown): unknown {
  if (!(error instanceof BufferUnavailableError)) return error
  return new ApiError('buffer_unavailable', {
    message: 'The records could not be stored now. Those that are not stored stay parked; replay them again.',
    details: { details: { reason: error.reason } },
    headers: { 'Retry-After': '5' },
  })
}
