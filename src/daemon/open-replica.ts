/**
 * The replica of a single machine. While there is one, every change of a row of the metadata is recorded, from before
 * anything else writes to it.
 */

import type { OpenBuffer } from '../log/buffer.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import { ReplicaBarrier } from '../log/replica-barrier.ts'
import { dataDirAt } from '../maintenance/data-dir.ts'
import { setRecording } from '../metadata/sqlite/replicated-file.ts'
import { endsWithin } from '../platform/deadline.ts'
import { replicaOptions, replicaRules, targetName } from '../replica/replica-options.ts'
import { openReplica, type Replica } from '../replica/replica-proxy.ts'
import { logSettings } from '../settings/log-settings.ts'
import type { Settings } from '../settings/settings.ts'
import { clusterSettings } from '../stores/cluster-settings.ts'
import type { StartContext } from './start-context.ts'

/** As for settings that cannot work: the unit's `RestartPreventExitStatus` has it, because a new start does not help. */
const exitRefused = 78

/**
 * The start waits so long for the bucket, so that a machine that was replaced while it was off accepts nothing. If the bucket
 * does not answer, the daemon starts without knowing: it can be the only one there is.
 */
const joinWithinMs = 10_000

/** Call it before other threads open the metadata. */
export function prepareReplica(settings: Settings): void {
  if (clusterSettings(settings) !== null) return
  setRecording(dataDirAt(settings.data_dir).metadataFile, replicaOptions(settings) !== null)
}

export interface StartedReplica extends Replica {
  /** See `targetName`. */
  readonly target: string
  /**
   * In sync mode: true when what is durable now is in the bucket, false if that takes longer than `replica.timeout`. Null:
   * nothing waits.
   */
  readonly stored: (() => Promise<boolean>) | null
  /** Calls back when everything that was durable before a moment (`sharedMs`) is in the bucket. */
  onStoredBefore: (ms: number) => void
}

/** Null: there is no replica. */
export async function startReplica(
  settings: Settings,
  { spec, buffer, sealingKey }: { spec: BufferSpec; buffer: OpenBuffer; sealingKey: Buffer },
  { log, shutdown }: StartContext,
): Promise<StartedReplica | null> {
  const chosen = replicaOptions(settings)
  if (chosen === null || spec.kind !== 'segments') return null
  const { root, metadataFile } = dataDirAt(settings.data_dir)
  let proven = () => {}
  const isProven = new Promise<void>((resolve) => {
    proven = resolve
  })
  const data = { ...chosen, root, metadataFile, buffer: spec, key: sealingKey, log: logSettings(settings) }
  const replica = openReplica(data, {
    onStored(seq, { provenMs, beforeMs }) {
      buffer.replicated?.(seq, provenMs)
      barrier?.storedBefore(beforeMs)
      started.onStoredBefore(beforeMs)
      proven()
    },
    onRefused(event, message) {
      log.fatal({ reason: message }, event)
      // At once: what would be acknowledged or delivered from here on belongs to the other writer.
      process.exit(exitRefused)
    },
  })
  const barrier = chosen.isSync ? new ReplicaBarrier(() => replica.wake()) : null
  const started: StartedReplica = {
    target: targetName(chosen.target),
    stored: barrier && (() => barrier.stored(AbortSignal.timeout(chosen.timeoutMs))),
    joined: replica.joined,
    ...{ status: () => replica.status(), wake: () => replica.wake(), close: () => replica.close() },
    onStoredBefore: () => {},
  }
  shutdown.set('close replica', () => replica.close())
  // A log that waits for the replica would reject the first requests until there is a slot of this run.
  const isReady = replicaRules(settings) === null ? replica.joined : isProven
  if (!(await endsWithin(joinWithinMs, isReady))) log.warn('replica.not_reached')
  return started
}
