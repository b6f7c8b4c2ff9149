/**
 * Epochs: the timelines of a data directory. The first begins when the directory is created, another with every
 * restore from a backup, with a move into a cluster, and with `nodes renumber`.
 * A restored buffer lacks the messages that were accepted after the backup, but receivers have seen them. A new epoch
 * therefore begins its sequence numbers far above every number that can have been given out. No seq ever stands for
 * two messages, and so no batch identity and no object key does.
 *
 *   epoch 1   1 ──────────────▶ after_seq 900 ┄┄┄ lost with the restore ┄┄┄▶ 950
 *   epoch 2                              first_seq 1763765000000000 ──────▶
 *
 * A move gives every message a new number: nothing of the epoch before is left, and its `after_seq` is 0.
 */
export interface Epoch {
  epoch: number
  /** At most the seq of its first message. */
  first_seq: number
  /** The newest seq of the epoch before that the backup held; 0 for the first. */
  after_seq: number
}

export const firstEpochs: readonly Epoch[] = [{ epoch: 1, first_seq: 1, after_seq: 0 }]

/** More messages than were ever accepted between a backup and the end of its directory. */
const skippedSeqs = 2 ** 40

/**
 * `headSeq`: the newest seq that the restored directory knows of. Microseconds grow faster than any buffer, so that two
 * restores of the same backup never meet.
 */
export function nextEpoch(epochs: readonly Epoch[], headSeq: number, nowMs: number): Epoch {
  return {
    epoch: current(epochs).epoch + 1,
    first_seq: Math.max(headSeq + skippedSeqs, nowMs * 1000),
    after_seq: headSeq,
  }
}

/** The new epoch of a data directory that is moved: no seq of an earlier epoch refers to a message any more. */
export function movedEpoch(epochs: readonly Epoch[], headSeq: number, nowMs: number): Epoch {
  return { ...nextEpoch(epochs, headSeq, nowMs), after_seq: 0 }
}

export function current(epochs: readonly Epoch[]): Epoch {
  return epochs.at(-1) ?? firstEpochs[0]!
}

/** Names the log that is written now: of this directory, since this restore. Two restores of one backup differ, too. */
export function timelineOf(dataDirId: string, epochs: readonly Epoch[]): string {
  const { epoch, first_seq } = current(epochs)
  return `${dataDirId}/${epoch}/${first_seq}`
}

/**
 * The epoch that follows the lost end of a timeline which contains `seq`; null if `seq` is in none. The seq just
 * before an epoch's first belongs to no message: it is the cursor with which consumers continue.
 */
export function epochAfterLost(epochs: readonly Epoch[], seq: number): Epoch | null {
  // The last one: what an earlier epoch kept, a later one may have lost.
  return epochs.findLast(({ after_seq, first_seq }) => seq > after_seq && seq < first_seq - 1) ?? null
}
