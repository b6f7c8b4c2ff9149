/**
 * Exactly once (`exactly_once`): the position of a lane is stored next to its records, and moves in their transaction. This
 * mark is a row of `_pipectl_lanes`, in the schema of the destination's table, one per lane and table:
 *
 *   destination_id  timeline  target  │  generation  last_seq  last_msg_id
 *   └── owner of the row ────────────┘   └── position ───────────────────┘
 *
 * The owner consists of three values. The destination: a new one starts from its own position (a destination created again, a
 * pipe copied with `apply`). The timeline: this data directory since its last restore, because a restored copy assigns other
 * seqs and can run in parallel with the original. A directory that takes over a replica continues the timeline: there is no other
 * one, and the row keeps a primary out that does not know of it yet. The table: another table has none of the records.
 *
 * The position is valid only within a generation, which every rewind increases: a rewind makes the row outdated, and everything
 * is delivered again, on purpose. `last_msg_id` is the message at `last_seq`. A row that would exclude records is trusted only
 * if this data directory has the same message there. The directory itself may have been copied (a snapshot, cp), and the copies
 * have the same ids but different messages beyond that point.
 *
 *   the row is …                          | the attempt sends
 *   --------------------------------------|--------------------------------------------------------------------------
 *   of an earlier generation, or missing  | the whole batch
 *   before the batch                      | the whole batch. Behind the lane is usual: messages were skipped or dropped,
 *                                         | or the database was restored, which only a rewind can repair
 *   within the batch, the same message    | the messages after it: the range was cut again, and is larger
 *   at its end or beyond, the same        | nothing: it is stored. Beyond: the range was cut again, and is smaller
 *   where a primary was that this         | the messages after it: that primary has stored what is before it
 *   directory has replaced                |
 *   the same seq, another message; of a   | nothing, and `lane_row_conflict`: another process delivers as this lane. The
 *   later generation                      | operator must decide which of them continues
 *
 * The row is moved first, and only from the position that was last read; the records follow in the same transaction. If two
 * attempts at one batch overlap (the first was abandoned, and the server still works on it), the second waits at the row, finds
 * it moved, reads it again and has nothing to send. The state after a crash:
 *
 *   before the COMMIT arrives           nothing: the row and the table are unchanged
 *   after it, its reply lost            both moved: the next attempt finds the row at the end of its batch
 *   after the reply, before the lane's own cursor is saved: the same
 */
import { v5 } from 'uuid'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DestinationSpec,
  type DriverSettings,
  type TableSpec,
  unreplicated,
} from '../driver.ts'

export const markTableName = '_pipectl_lanes'

export const keyColumns = 'destination_id, timeline, target'
export const positionColumns = 'generation, last_seq, last_msg_id'

/** The values of `keyColumns`. `target` is the destination's table, as its config names it. */
export function markKey(spec: TableSpec, { timeline = '' }: DriverSettings): string[] {
  return [markOwner(spec), timeline, spec.config.table]
}

/** The owner and timeline of every mark that a destination can have on this server. */
export function keysToForget({ destinationId }: TableSpec, { timeline = '' }: DriverSettings): string[] {
  return [markOwner({ destinationId }), markOwner({ destinationId, isForReplays: true }), timeline]
}

/**
 * The owner of the row that an attempt moves. Replays of parked records have a separate row. Each replay has a greater
 * generation than the one before: the row shows whether the last of them is stored.
 */
function markOwner({
  destinationId,
  isForReplays = false,
}: Pick<DestinationSpec, 'destinationId' | 'isForReplays'>): string {
  return isForReplays ? v5('replays', destinationId) : destinationId
}

export interface MarkPosition {
  generation: number
  lastSeq: number
  /** Empty: no message. */
  lastMsgId: string
}

/** A mark that was never moved. */
export function startOf(generation = 0): MarkPosition {
  return { generation, lastSeq: 0, lastMsgId: '' }
}

/** The mark's position once the batch is stored. */
export function endOf({ generation = 0, messages }: Batch): MarkPosition {
  const { seq, msgId } = messages.at(-1)!
  return { generation, lastSeq: seq, lastMsgId: msgId }
}

/** The values of `positionColumns`. */
export function valuesOf({ generation, lastSeq, lastMsgId }: MarkPosition): string[] {
  return [String(generation), String(lastSeq), lastMsgId]
}

/** Parses the server's texts, which are untrusted. */
export function positionOf(row: Record<string, unknown>, table: string): MarkPosition {
  const [generation, lastSeq] = [Number(row.generation), Number(row.last_seq)]
  if (!Number.isSafeInteger(generation) || !Number.isSafeInteger(lastSeq)) {
    throw conflict(table, 'contains no numbers', 'Delete the row')
  }
  return { generation, lastSeq, lastMsgId: String(row.last_msg_id).slice(0, 100) }
}

/**
 * The part of the batch that is not stored yet, according to the row; null: all of it is stored. Rejects with
 * `lane_row_conflict`.
 */
export async function undelivered(
  batch: Batch,
  position: MarkPosition,
  table: string,
  progress: AttemptProgress,
): Promise<Batch | null> {
  const { generation = 0, firstSeq, lastSeq, messages } = batch
  if (position.generation > generation) {
    throw conflict(table, 'has a later rewind than this lane')
  }
  if (position.generation < generation || position.lastSeq < firstSeq) return batch
  const at = messages.findIndex(({ seq }) => seq === position.lastSeq)
  const msgId = at >= 0 ? messages[at]!.msgId : await messageIdAt(position.lastSeq, progress)
  if (msgId === unreplicated) return after(position.lastSeq, batch)
  if (msgId !== position.lastMsgId) {
    throw conflict(
      table,
      `is at seq ${position.lastSeq}, where this data directory has a different message or none`,
    )
  }
  if (position.lastSeq >= lastSeq) return null
  return withMessages(batch, messages.slice(at + 1))
}

/** The order of a lane is that of the seqs: what is before the position is stored. */
function after(position: number, batch: Batch): Batch | null {
  const messages = batch.messages.filter(({ seq }) => seq > position)
  return messages.length === 0 ? null : withMessages(batch, messages)
}

/** For positions beyond the batch: the lane reads the buffer. */
async function messageIdAt(seq: number, progress: AttemptProgress): Promise<string | null> {
  try {
    return await progress.messageIdAt(seq)
  } catch (cause) {
    const message = `The message at seq ${seq} could not be read from the buffer to compare it with the lane's row. Nothing was stored; the pipectl log has the cause.`
    throw new DeliveryError('transient', 'message_unreadable', message, { cause })
  }
}

function withMessages(batch: Batch, messages: Batch['messages']): Batch {
  return {
    ...batch,
    messages,
    firstSeq: messages[0]!.seq,
    recordCount: messages.reduce((sum, { recordCount }) => sum + recordCount, 0),
    byteCount: messages.reduce((sum, { body }) => sum + body.length, 0),
  }
}

function conflict(
  table: string,
  what: string,
  next = 'Stop the other one, then rewind this lane to deliver the kept messages again',
): DeliveryError {
  const message = `The row of this lane in ${table} ${what}. Check whether a copy of this data directory delivers too. Nothing was stored. ${next}.`
  return new DeliveryError('permanent', 'lane_row_conflict', message)
}

/** Another process moved the mark at every read. */
export function markBusy(table: string): DeliveryError {
  const message = `The row of this lane in ${table} was changed by another attempt. It will be read again.`
  return new DeliveryError('transient', 'lane_row_busy', message)
}

/** Maximum number of reads per attempt of a mark that keeps moving. */
export const maxReads = 3

/** The result of a destination's check, as a sentence. `table`: the table of the marks. */
export function checkedTable(table: string, isThere: boolean): string {
  return isThere
    ? `${table} can store the position of the lane.`
    : `${table} does not exist yet: the first delivery creates it.`
}

/**
 * The table of the marks cannot be created or used. `byHand`: the command to run, placed first because the server's message may
 * be long.
 */
export function markTableUnusable(why: DeliveryError, byHand: string): DeliveryError {
  if (why.class === 'transient') return why
  const message = `exactly_once needs a table that this user cannot create or use. Run this as an administrator: ${byHand} The error of the server: ${why.message}`
  return new DeliveryError('permanent', 'lane_table_unusable', message, { cause: why.cause })
}

/** The error for a table that does not take part in transactions. */
export function notTransactional(table: string, what: string, next: string): DeliveryError {
  const message = `exactly_once needs transactions, and ${table} is ${what}: ${next}, or disable exactly_once.`
  return new DeliveryError('permanent', 'table_not_transactional', message)
}
