/** The settings of the replica. */
import type { ReplicaRules } from '../log/segments/held-results.ts'
import type { Settings } from '../settings/settings.ts'
import type { ReplicaTarget } from './bucket.ts'
import { replicaTarget } from './target.ts'

export interface ReplicaOptions {
  target: ReplicaTarget
  intervalMs: number
  /** 202 is sent when a message is in the replica, and not only on the disk. */
  isSync: boolean
  /** How long a request waits for the replica in sync mode. */
  timeoutMs: number
  /** The longest time without a slot; null: standbys are promoted by hand. */
  heartbeatMs: number | null
}

/** After so many heartbeats without a slot a standby takes over, and the primary accepts nothing. */
export const missedHeartbeats = 3

/** Null: there is no replica. Throws ConfigError for an invalid address. */
export function replicaOptions(settings: Settings): ReplicaOptions | null {
  const target = replicaTarget(settings)
  if (target === null) return null
  return {
    target,
    intervalMs: settings['replica.interval'] * 1000,
    isSync: settings['replica.mode'] === 'sync',
    timeoutMs: settings['replica.timeout'] * 1000,
    heartbeatMs: settings['replica.auto_promote'] ? settings['replica.heartbeat'] * 1000 : null,
  }
}

/** Names the place in messages and in the file of the writer. Contains no secret. */
export function targetName({
  bucket,
  prefix,
  endpoint,
}: Pick<ReplicaTarget, 'bucket' | 'prefix' | 'endpoint'>): string {
  return `s3://${bucket}/${prefix}${endpoint === null ? '' : ` at ${endpoint}`}`
}

/** The rules by which the log waits for the replica. Null: it does not. */
export function replicaRules(settings: Settings): ReplicaRules | null {
  const options = replicaOptions(settings)
  if (options === null) return null
  const { isSync, timeoutMs, heartbeatMs } = options
  if (!isSync && heartbeatMs === null) return null
  return {
    timeoutMs: isSync ? timeoutMs : null,
    leaseMs: heartbeatMs === null ? null : missedHeartbeats * heartbeatMs,
  }
}
