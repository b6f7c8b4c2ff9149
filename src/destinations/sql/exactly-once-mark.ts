/**
 * Exactly once (`exactly_once`): the position of a lane is stored next to its records, and moves in their
 * transaction. This mark is a row of `_pipectl_lanes`, in the schema of the destination's table, one for each lane and table:
 *
 *   destination_id  timeline  target  │  generation  last_seq  last_msg_id
 *   └── owner of the row ────────────┘   └── position ───────────────────┘
 *
 * The owner. The destination, so that a new one begins at its own start (a destination created again, a pipe copied
 * with `apply`). The timeline: this data directory since its last restore, because a restored copy gives out other
 * seqs and may run in parallel with the directory it was made from. The table: another one has none of the records.
 *
 * The position. Seqs only count within a generation, which every rewind raises: a rewind makes the row outdated, and
 * everything is delivered again, on purpose. `last_msg_id` is the message at `last_seq`. A row that would have
 * records left out is believed only if this data directory has the same message there: the directory itself may have
 * been copied (a snapshot, cp), and the copies have the same ids but other messages behind that point.
 *
 *   the row is …                          | the attempt sends
 *   --------------------------------------|--------------------------------------------------------------------------
 *   of an earlier generation, or missing  | the whole batch
 *   before the batch                      | the whole batch. Behind the lane is usual: messages were skipped or dropped,
 *                                         | or the database was restored, which only a rewind can make up for
 *   within the batch, the same message    | the messages after it: the range was cut again, and larger
 *   at its end or beyond, the same        | nothing: it is stored. Beyond: the range was cut again, and smaller
 *   the same seq, another message; of a   | nothing, and `lane_row_conflict`: another process delivers as this lane. The
 *   later generation                      | operator has to decide which of them continues
 *
 * The row is moved first, and only from where it was last seen; the records follow in the same transaction. If there
 * are two attempts at one batch (the first was abandoned, and the server still works on it), the second waits at the
 * row for the first to end, finds it moved, reads it again and has nothing to send. The state after a crash:
 *
 *   before the COMMIT arrives      nothing: the row is where it was, and so is the table
 *   after it, its reply lost       both moved: the next attempt finds the row at the end of its batch
 *   after the reply, before the lane's own cursor is saved: the same
 */
import { v5 } from 'uuid'
import {
  type AttemptProgress,
  type Batch,
  type DatabaseSpec,
  DeliveryError,
  type DestinationSpec,
  type DriverSettings,
} from '../driver.ts'

export const markTableName = '_pipectl_lanes'

export const keyColumns = 'destination_id, timeline, target'
export const positionColumns = 'generation, last_seq, last_msg_id'

/** The values of `keyColumns`. `target` is the destination's table, as its config names it. */
export function markKey(spec: DatabaseSpec, { timeline = '' }: DriverSettings): string[] {
  return [markOwner(spec), timeline, spec.config.table]
}

/** The owners and the timeline of all marks that a destination has had here. */
export function keysToForget({ destinationId }: DatabaseSpec, { timeline = '' }: DriverSettings): string[] {
  return [markOwner({ destinationId }), markOwner({ destinationId, isForReplays: true }), timeline]
}

/**
 * The owner of the row that an attempt moves. Replays of parked records have a row of their own next to the lane's.
 * Each replay has its own generation, greater than the one before: the row says whether the last of them is stored.
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
  /** Empty: of no message. */
  lastMsgId: string
}

/** A mark that was never moved. */
export function startOf(generation = 0): MarkPosition {
  return { generation, lastSeq: 0, lastMsgId: '' }
}

/** Where the mark is once the batch is stored. */
export function endOf({ generation = 0, messages }: Batch): MarkPosition {
  const { seq, msgId } = messages.at(-1)!
  return { generation, lastSeq: seq, lastMsgId: msgId }
}

/** The values of `positionColumns`. */
export function valuesOf({ generation, lastSeq, lastMsgId }: MarkPosition): string[] {
  return [String(generation), String(lastSeq), lastMsgId]
}

/** From the server's texts, which may be anything. */
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
  if (msgId !== position.lastMsgId) {
    throw conflict(
      table,
      `is at seq ${position.lastSeq}, where this data directory has a different message or none`,
    )
  }
  if (position.lastSeq >= lastSeq) return null
  return withMessages(batch, messages.slice(at + 1))
}

/** Beyond the batch: the lane looks into the buffer. */
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

/** Another process moves the mark whenever it is read. */
export function markBusy(table: string): DeliveryError {
  const message = `The row of this lane in ${table} was changed by another attempt. It will be read again.`
  return new DeliveryError('transient', 'lane_row_busy', message)
}

/** How often an attempt reads a mark that was moved meanwhile. */
export const mostReads = 3

/** The outcome of a check of a destination, in words. `table`: of the marks. */
export function checkedTable(table: string, isThere: boolean): string {
  return isThere
    ? `${table} can store the position of the lane.`
    : `${table} does not exist yet: the first delivery creates it.`
}

/** The table of the marks cannot be made or used. `byHand`: what to run; it stands first, because the server's words may be long. */
export function markTableUnusable(why: DeliveryError, byHand: string): DeliveryError {
  if (why.class === 'transient') return why
  const message = `exactly_once needs a table that this user cannot create or use. Run this as an administrator: ${byHand} The error of the server: ${why.message}`
  return new DeliveryError('permanent', 'lane_table_unusable', message, { cause: why.cause })
}

/** A table whose rows are not stored in the server's transaction. */
export function notTransactional(table: string, what: string, next: string): DeliveryError {
  const message = `exactly_once needs transactions, and ${table} is ${what}: ${next}, or disable exactly_once.`
  return new DeliveryError('permanent', 'table_not_transactional', message)
}
