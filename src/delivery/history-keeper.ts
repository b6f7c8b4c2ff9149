/**
 * Deletes the history of messages that are no longer kept: periodically, one lane after the other. After a failure it
 * waits for the next time.
 */
import type { BufferReader } from '../log/buffer.ts'
import type { LaneStore } from '../metadata/lane-state.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'
import type { LaneSet } from './lane-set.ts'

export interface HistoryKeeperDeps {
  lanes: Pick<LaneSet, 'lanes'>
  reader: Pick<BufferReader, 'earliest'>
  store: Pick<LaneStore, 'pruneHistory'>
  clock: Clock
  log: Logger
}

/** Retention drops whole segments, which are an hour of messages or less. */
const pruneEveryMs = 15 * 60_000

/** Returns a function that stops it. */
export function keepHistoryShort(deps: HistoryKeeperDeps): () => void {
  let cancel = () => {}
  let isEnded = false
  const later = () => {
    if (!isEnded) cancel = deps.clock.wake(pruneEveryMs, () => void prune(deps).then(later))
  }
  later()
  return () => {
    isEnded = true
    cancel()
  }
}

async function prune({ lanes, reader, store, log }: HistoryKeeperDeps): Promise<void> {
  for (const { spec, epoch } of [...lanes.lanes()]) {
    const { destinationId } = spec
    try {
      const { seq } = await reader.earliest(spec.pipeId)
      await store.pruneHistory({ destinationId, epoch }, seq)
    } catch (err) {
      log.warn({ err, destination_id: spec.destinationId }, 'lane.history_not_pruned')
      return
    }
  }
}
