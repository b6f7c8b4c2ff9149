/**
 * Epochs: the timelines of a data directory. The first one starts when the directory is created. A restore from a backup, a
 * move into a cluster and `nodes renumber` each start another one.
 *
 * A restored buffer lacks the messages that were accepted after the backup, but receivers have already seen them. So a new
 * epoch starts its sequence numbers far above every number that can have been assigned. No seq ever identifies two
 * messages; therefore batch identities and object keys are unique too.
 *
 *   epoch 1   1 ──────────────▶ after_seq 900 ┄┄┄ lost with the restore ┄┄┄▶ 950
 *   epoch 2                              first_seq 1763765000000000 ──────▶
 *
 * A move gives every message a new number. No message of the previous epoch remains, so `after_seq` is 0.
 */
export interface Epoch {
  epoch: number
  /** A lower bound for the seq of its first message. */
  first_seq: number
  /** The newest seq of the previous epoch that the backup held; 0 in the first epoch. */
  after_seq: number
  /**
   * The place of the replica of which the previous epoch is the beginning: this directory continues its log, as the only one.
   * Messages that the previous primary accepted beyond `after_seq` are lost. Those that it delivered are not repeated.
   */
  continues?: string
}

export const firstEpochs: readonly Epoch[] = [{ epoch: 1, first_seq: 1, after_seq: 0 }]

/** More messages than can be accepted between a backup and the loss of its directory. */
const skippedSeqs = 2 ** 40

/**
 * `headSeq` is the newest seq that the restored directory knows. The microseconds of the clock grow faster than any
 * buffer, so two restores of one backup use different numbers: for 12 days also when `headSeq` is ahead of the clock, as after
 * an earlier restore.
 */
export function nextEpoch(epochs: readonly Epoch[], headSeq: number, nowMs: number): Epoch {
  return {
    epoch: current(epochs).epoch + 1,
    first_seq: Math.max(headSeq + skippedSeqs + ((nowMs * 1000) % skippedSeqs), nowMs * 1000),
    after_seq: headSeq,
  }
}

/** Starts the epoch of a data directory that is moved. No seq of an earlier epoch identifies a message any longer. */
export function movedEpoch(epochs: readonly Epoch[], headSeq: number, nowMs: number): Epoch {
  return { ...nextEpoch(epochs, headSeq, nowMs), after_seq: 0 }
}

export function current(epochs: readonly Epoch[]): Epoch {
  return epochs.at(-1) ?? firstEpochs[0]!
}

/**
 * Identifies the log that is written now: this directory since this restore. Two restores of one backup differ. `replica`: the
 * place of the replica that this process writes. Who takes that over continues its log.
 */
export function timelineOf(dataDirId: string, epochs: readonly Epoch[], replica?: string): string {
  const begun = epochs.findLast(({ continues }) => continues === undefined || continues !== replica)
  const { epoch, first_seq } = begun ?? current(epochs)
  return `${dataDirId}/${epoch}/${first_seq}`
}

/** A seq that only a primary which was replaced can have assigned: its end of the log is not in the replica. */
export function isUnreplicated(epochs: readonly Epoch[], seq: number): boolean {
  return epochs.some(
    ({ continues, after_seq, first_seq }) => continues !== undefined && seq > after_seq && seq < first_seq,
  )
}

/**
 * Returns the epoch that follows the lost end of a timeline, if `seq` is in that lost end; null otherwise. The seq
 * just before an epoch's first belongs to no message: consumers use it as the cursor to continue from.
 */
export function epochAfterLost(epochs: readonly Epoch[], seq: number): Epoch | null {
  // The last match counts: a later epoch can have lost what an earlier one kept.
  return epochs.findLast(({ after_seq, first_seq }) => seq > after_seq && seq < first_seq - 1) ?? null
}
