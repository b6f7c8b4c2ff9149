/** Metrics of the replica in object storage, of a single machine that has one. */
import { Counter, Gauge, type Registry } from 'prom-client'

/** The state of the replica. Times are in ms since the epoch. */
export interface MeasuredReplica {
  /** Everything that was acknowledged before this moment is in the bucket. */
  storedThroughMs: number
  /** Null: there is no snapshot, so nothing can be restored. */
  snapshotMs: number | null
  /** The last request failed, or the bucket has not been reached yet. */
  isFailing: boolean
  /** Since the thread of the replica was started. */
  requests: Readonly<Record<string, number>>
  sentBytes: number
  /** In the bucket, when the newest snapshot was stored; null: not counted yet. */
  stored: { objects: number; bytes: number } | null
  /** The end of the last `pipectl replica verify` that found the replica complete; null: none, or a later one failed. */
  verifiedMs: number | null
}

export type ReplicaSource = () => Promise<MeasuredReplica>

export function registerReplica(registry: Registry, measured: ReplicaSource): () => Promise<void> {
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const lag = gauge(
    'pipectl_replica_lag_seconds',
    'The age of the newest moment that is in the bucket completely: what the loss of this machine would lose.',
  )
  const failing = gauge('pipectl_replica_failing', '1 while requests to the bucket fail.')
  const snapshot = gauge(
    'pipectl_replica_snapshot_timestamp_seconds',
    'When the newest snapshot was stored; 0: there is none, and nothing can be restored.',
  )
  const requests = new Counter({
    name: 'pipectl_replica_requests_total',
    help: 'Requests to the bucket, by kind.',
    labelNames: ['kind'],
    registers,
  })
  const sent = new Counter({
    name: 'pipectl_replica_sent_bytes_total',
    help: 'Bytes of the objects that were sent to the bucket.',
    registers,
  })
  const storedBytes = gauge(
    'pipectl_replica_stored_bytes',
    'The size of the objects in the bucket, when the newest snapshot was stored.',
  )
  const storedObjects = gauge(
    'pipectl_replica_stored_objects',
    'The number of objects in the bucket, when the newest snapshot was stored.',
  )
  const verified = gauge(
    'pipectl_replica_verified_timestamp_seconds',
    'When `pipectl replica verify` found the replica complete; 0: never, or the last one failed.',
  )
  return async () => {
    const now = await measured()
    lag.set(Math.max(0, Date.now() - now.storedThroughMs) / 1000)
    failing.set(now.isFailing ? 1 : 0)
    snapshot.set(now.snapshotMs === null ? 0 : now.snapshotMs / 1000)
    storedBytes.set(now.stored?.bytes ?? 0)
    storedObjects.set(now.stored?.objects ?? 0)
    verified.set((now.verifiedMs ?? 0) / 1000)
    requests.reset()
    for (const [kind, count] of Object.entries(now.requests)) requests.inc({ kind }, count)
    sent.reset()
    sent.inc(now.sentBytes)
  }
}
