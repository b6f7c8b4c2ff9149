/** What a lane writes to the log: one wide line per attempt, one line when its state turns. */
import type { StoredMessage } from '../buffer/buffer.ts'
import type { Batch, DeliveryError } from '../destinations/driver.ts'
import type { Logger } from '../log.ts'
import type { AttemptOutcome } from './attempt.ts'
import type { DroppedMessages } from './batch-reader.ts'
import type { LaneSpec } from './delivery.ts'

export interface LaneLog {
  attempted(batch: Batch, attempt: number, outcome: AttemptOutcome, ms: number): void
  blocked(message: StoredMessage, error: DeliveryError): void
  stalled(message: StoredMessage, error: DeliveryError): void
  recovered(): void
  dropped(lost: DroppedMessages): void
  skipped(message: StoredMessage): void
  rewound(cursorSeq: number): void
}

export function openLaneLog(log: Logger, { destinationId, pipeId }: LaneSpec): LaneLog {
  const lane = { destination_id: destinationId, pipe_id: pipeId }
  const failed = ({ msgId, seq }: StoredMessage, { code, message }: DeliveryError) => ({
    ...lane,
    msg_id: msgId,
    stream_seq: seq,
    code,
    message,
  })
  return {
    attempted(batch, attempt, outcome, ms) {
      const error = outcome.kind === 'failed' ? outcome.error : null
      const fields = {
        ...lane,
        attempt,
        first_seq: batch.firstSeq,
        last_seq: batch.lastSeq,
        records: batch.recordCount,
        bytes: batch.byteCount,
        ms: Math.round(ms),
        outcome: error?.class ?? outcome.kind,
        code: error?.code,
      }
      if (error === null) log.debug(fields, 'delivery.attempted')
      else log.info({ ...fields, message: error.message }, 'delivery.attempted')
    },
    blocked: (message, error) => log.warn(failed(message, error), 'lane.blocked'),
    stalled: (message, error) => log.warn(failed(message, error), 'lane.stalled'),
    recovered: () => log.info(lane, 'lane.recovered'),
    dropped: ({ dropped, reason, row }) =>
      log.warn({ ...lane, messages: dropped, reason, cursor_seq: row.cursorSeq }, 'lane.messages_dropped'),
    skipped: ({ msgId, seq }) => log.info({ ...lane, msg_id: msgId, stream_seq: seq }, 'lane.skipped'),
    rewound: (cursorSeq) => log.info({ ...lane, cursor_seq: cursorSeq }, 'lane.rewound'),
  }
}
