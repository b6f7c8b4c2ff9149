/**
 * New numbers for a cluster whose database and stream were restored from backups. The messages accepted after the backup are
 * lost, but receivers have seen their numbers, and the restored stream would assign these to other messages. The frames do not
 * change. Instead, an epoch starts whose base (`log/offset.ts`) is far above every assigned number, and the seqs in metadata
 * are shifted to it.
 *
 *   before   base ─ 1,024 … 5,000                    the cursor of a lane at base + 4,000
 *   after    new base ─ 1,024 … 5,000 ─ new messages     at new base + 4,000
 *
 * Metadata changes in one transaction: after a crash it is either unchanged or complete, and a second run is harmless. A lane
 * that has delivered more than the stream contains continues at the end of the stream.
 */
import { messagesPerFrame, seqOf, streamName } from '../../cluster/jetstream/frames.ts'
import { lastFrameOf } from '../../cluster/jetstream/stream.ts'
import { connectNats } from '../../cluster/nats/connect.ts'
import { current, movedEpoch } from '../../contract/epochs.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { seqBaseOf } from '../../log/offset.ts'
import type { Settings } from '../../settings/settings.ts'
import type { MoveSide } from './move.ts'
import { openCluster } from './sides.ts'
import { type NewSeqs, translatedLane } from './translate.ts'

export interface Renumbering {
  stream: string
  /** The newest frame in the stream, and the newest that a lane has delivered. 0: none. */
  lastFrame: number
  deliveredFrame: number
  lanes: number
}

/**
 * `confirm` rejects to cancel without a change. Throws ConfigError, DataDirError, StorageUnavailableError,
 * StreamUnavailableError.
 */
export async function renumber(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  confirm: (found: Renumbering) => Promise<void>,
): Promise<void> {
  const cluster = await openCluster(settings, env)
  const { store } = cluster
  try {
    const { dataDirId, epochs } = await store.identity()
    const lastFrame = await lastFrameIn(cluster, dataDirId)
    const base = seqBaseOf({ nextSeqAtLeast: current(epochs).first_seq })
    const lastSeq = base + seqOf(lastFrame, messagesPerFrame - 1)
    const knownSeq = await store.knownSeq()
    await confirm({
      stream: streamName(cluster.buffer.cluster),
      lastFrame,
      deliveredFrame: Math.max(0, Math.floor((knownSeq - base) / messagesPerFrame)),
      lanes: await store.count('lanes'),
    })
    const next = movedEpoch(epochs, Math.max(lastSeq, knownSeq), Date.now())
    const shift = { base, lastSeq, by: next.first_seq - 1 - base }
    const seqs = shiftedSeqs(shift)
    await store.renumber(shift, [...epochs, next], (lane) => translatedLane(lane, seqs, []))
  } finally {
    await store.close()
  }
}

async function lastFrameIn({ buffer }: MoveSide<JetStreamSpec>, dataDirId: string): Promise<number> {
  const connection = await connectNats(buffer.nats)
  try {
    return await lastFrameOf(connection, { ...buffer, identity: { dataDirId, epoch: 1 } })
  } finally {
    await connection.close()
  }
}

/** Pure. */
export function shiftedSeqs({ base, lastSeq, by }: { base: number; lastSeq: number; by: number }): NewSeqs {
  return {
    of(seq) {
      // A seq of an earlier epoch is before everything in the stream.
      if (seq <= base) return { at: null, through: null, from: base + by + 1 }
      if (seq > lastSeq) return { at: null, through: lastSeq + by, from: null }
      return { at: seq + by, through: seq + by, from: seq + by }
    },
  }
}
