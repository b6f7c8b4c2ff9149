/** Metrics of the process, of the certificates of its listeners, and of the cluster as this node sees it. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { ClusterMeasured } from '../../cluster/cluster-view.ts'
import { nodeStates } from '../../contract/node-words.ts'

export function registerProcess(
  registry: Registry,
  { build, followsCrash }: { build: Record<string, string>; followsCrash: boolean },
): void {
  new Gauge({
    name: 'pipectl_build_info',
    help: '1; its labels describe the running program.',
    labelNames: Object.keys(build),
    registers: [registry],
  }).set(build, 1)
  new Gauge({
    name: 'pipectl_follows_crash',
    help: '1: the previous run did not stop normally (a crash, kill -9, a power cut).',
    registers: [registry],
  }).set(followsCrash ? 1 : 0)
  new Gauge({
    name: 'pipectl_time_seconds',
    help: 'The wall clock of the service.',
    registers: [registry],
    collect() {
      this.set(Date.now() / 1000)
    },
  })
}

export interface CertificateSource {
  readonly listener: string
  readonly current: { expiresMs: number }
  readonly rejection: string | null
}

/** The expiry of each listener's certificate, and whether a new one failed to load. */
export function registerCertificates(registry: Registry, certificates: readonly CertificateSource[]): void {
  const labelNames = ['listener']
  new Gauge({
    name: 'pipectl_tls_certificate_expiry_seconds',
    help: 'Expiry of the served certificate, as Unix time. None without TLS.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { listener, current } of certificates) this.set({ listener }, current.expiresMs / 1000)
    },
  })
  new Gauge({
    name: 'pipectl_tls_certificate_rejected',
    help: '1: the files contain an unusable certificate, and the previous one is served.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { listener, rejection } of certificates) this.set({ listener }, rejection === null ? 0 : 1)
    },
  })
}

/** Jobs that find and delete personal data, since the process started. */
export interface PrivacySource {
  readonly counts: { readonly done: number; readonly failed: number; readonly deletedRecords: number }
}

export function registerPrivacy(registry: Registry, { counts }: PrivacySource): void {
  new Counter({
    name: 'pipectl_privacy_jobs_total',
    help: 'Searches and deletions of personal data that have ended, by result.',
    labelNames: ['result'],
    registers: [registry],
    collect() {
      this.reset()
      for (const result of ['done', 'failed'] as const) this.inc({ result }, counts[result])
    },
  })
  new Counter({
    name: 'pipectl_privacy_deleted_records_total',
    help: 'Records that deletions of personal data have removed from the buffer and from parked records.',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(counts.deletedRecords)
    },
  })
}

export type ClusterSource = () => Promise<ClusterMeasured>

/** A single machine has none of them. */
export function registerCluster(registry: Registry, measured: ClusterSource): () => Promise<void> {
  const registers = [registry]
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const nodes = new Gauge({
    name: 'pipectl_cluster_nodes',
    help: 'Nodes by state; a node that stopped unexpectedly is expired for an hour, or until a node of its name is back.',
    labelNames: ['state'],
    registers,
  })
  const owned = gauge('pipectl_cluster_owned_pipes', 'Pipes that this node delivers.')
  const unowned = gauge('pipectl_cluster_unowned_pipes', 'Pipes that no node delivers at this moment.')
  const gained = new Counter({
    name: 'pipectl_cluster_gained_pipes_total',
    help: 'Pipes that this node took over, checked every two seconds.',
    registers,
  })
  const age = gauge('pipectl_cluster_heartbeat_age_seconds', 'Seconds since this node renewed its lease.')
  const behind = gauge('pipectl_cluster_changes_behind', 'Changes that this node has not applied yet.')
  const offset = gauge('pipectl_cluster_clock_offset_seconds', "The database's clock minus this machine's.")
  return async () => {
    const found = await measured()
    for (const state of nodeStates) nodes.set({ state }, found.nodes[state])
    owned.set(found.ownedPipes)
    unowned.set(found.unownedPipes)
    gained.reset()
    gained.inc(found.gainedPipes)
    age.set(found.heartbeatAgeSeconds)
    behind.set(found.changesBehind)
    offset.set(found.clockOffsetSeconds)
  }
}
