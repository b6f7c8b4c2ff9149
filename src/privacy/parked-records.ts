/** Finds and deletes parked records of lanes by their content. The rows are read and changed in small steps. */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { PrivacyJob } from '../contract/privacy.ts'
import { eraseRecords, keptTexts } from '../log/erased-body.ts'
import { type ErasureCondition, isCandidate, matches } from '../log/erasure.ts'
import { recordTexts } from '../log/record-text.ts'
import type { ErasablePipe, ParkedBody, PipeParkedText, PrivacyErasure } from '../metadata/privacy-erasure.ts'

export interface ParkedSearch {
  store: Pick<PrivacyErasure, 'parkedAfter' | 'replaceParked' | 'pipeParkedAfter' | 'removePipeParked'>
  pipes: readonly ErasablePipe[]
  conditions: readonly ErasureCondition[]
  signal: AbortSignal
}

/** Calls back for each parked record that meets the conditions. */
export async function findParked(
  search: ParkedSearch,
  onFound: (match: PrivacyJob['matches'][number]) => void,
): Promise<void> {
  for await (const { pipeId, msgId, seq, firstIndex, body } of candidates(search))
    for (const [index, record] of recordTexts(Buffer.from(body)).entries()) {
      if (record === '' || !matches(record, search.conditions)) continue
      const position = { stream_seq: seq, record_index: firstIndex + index }
      onFound({ pipe_id: pipeId, msg_id: msgId, ...position, is_parked: true })
    }
}

/**
 * Deletes the parked records that meet the conditions. A row without other records is removed; in others the indexes
 * stay, as in the log. A row that has changed meanwhile, for example by an edit, is left for the next pass.
 */
export async function eraseParked(
  search: ParkedSearch,
  onErased: (row: ParkedBody, records: number) => Promise<void>,
): Promise<void> {
  const { store, conditions } = search
  for await (const row of candidates(search)) {
    const erased = eraseRecords(Buffer.from(row.body), (record) => matches(record, conditions))
    if (erased === null) continue
    const isEmpty = keptTexts(erased.body).length === 0
    if (await store.replaceParked(row, isEmpty ? null : erased.body.toString('utf8')))
      await onErased(row, erased.records)
  }
}

/** The rows that can have such a record. */
async function* candidates({ store, pipes, conditions, signal }: ParkedSearch): AsyncGenerator<ParkedBody> {
  for (const { destinationId } of pipes.flatMap(({ destinations }) => destinations)) {
    let after = ''
    for (;;) {
      signal.throwIfAborted()
      const rows = await store.parkedAfter(destinationId, after)
      if (rows === null) break
      for (const row of rows) {
        const body = Buffer.from(row.body)
        if (conditions.every((condition) => isCandidate(body, condition))) yield row
      }
      after = rows.at(-1)!.parkedId
      // Queries of SQLite run in this thread, so nothing else would run between them.
      await yieldToEventLoop()
    }
  }
}

/** Calls back for each record that is parked at its pipe, before any lane, and meets the conditions. */
export async function findPipeParked(
  search: ParkedSearch,
  onFound: (row: PipeParkedText) => void | Promise<void>,
): Promise<void> {
  const { store, pipes, conditions, signal } = search
  for (const { pipeId } of pipes)
    for (let after = ''; ; ) {
      signal.throwIfAborted()
      const rows = await store.pipeParkedAfter(pipeId, after)
      if (rows === null) break
      for (const row of rows) if (matches(row.record, conditions)) await onFound(row)
      after = rows.at(-1)!.parkedId
      await yieldToEventLoop()
    }
}

/**
 * Deletes the records that are parked at their pipe and meet the conditions, also those whose replay was interrupted. No
 * replay may run meanwhile. Resolves when none is left.
 */
export async function erasePipeParked(
  search: ParkedSearch,
  onErased: (row: PipeParkedText) => Promise<void>,
): Promise<void> {
  for (let isLeft = true; isLeft; ) {
    isLeft = false
    await findPipeParked(search, async (row) => {
      // It is left if it was edited after it was read.
      if (await search.store.removePipeParked(row)) await onErased(row)
      else isLeft = true
    })
  }
}
