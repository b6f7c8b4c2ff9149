/** Reads the settings of the cluster that this node belongs to. */
import os from 'node:os'
import type { JetStreamSpec, NatsSpec } from '../log/buffer-spec.ts'
import type { MetadataSpec } from '../metadata/store.ts'
import { natsLogin } from '../settings/server-urls.ts'
import type { Settings } from '../settings/settings.ts'

export interface ClusterSettings {
  /** The value of `cluster.name`. */
  name: string
  /** The value of `node.name`, or the host name. */
  nodeName: string
  metadata: Extract<MetadataSpec, { kind: 'postgresql' }>
  nats: NatsSpec
  /** The number of replicas of the stream. */
  replicas: number
}

/** Null: this is a single machine. */
export function clusterSettings(settings: Settings): ClusterSettings | null {
  const { 'metadata.url': url, 'buffer.nats': servers } = settings
  if (url === null || servers === null) return null
  const { 'cluster.name': name, 'cluster.replicas': replicas } = settings
  const nodeName = settings['node.name'] ?? hostName()
  const nats = {
    ...natsLogin(servers),
    credentialsFile: settings['buffer.nats_credentials'],
    caFile: settings['buffer.nats_ca'],
    name: `pipectl ${name} ${nodeName}`,
  }
  return { name, nodeName, metadata: { kind: 'postgresql', url }, nats, replicas }
}

export function jetStreamSpec(
  settings: Settings,
  { name, nats, replicas }: ClusterSettings,
  quarantineDir: string,
): JetStreamSpec {
  return {
    kind: 'jetstream',
    nats,
    cluster: name,
    replicas,
    maxBytes: settings['buffer.max_bytes'],
    undeliveredHours: settings['buffer.undelivered_hours'],
    deliveredHours: settings['buffer.delivered_hours'],
    deliveredMaxBytes: settings['buffer.delivered_max_bytes'],
    maxBodyBytes: settings['ingest.max_body_bytes'],
    quarantineDir,
  }
}

/** Returns the host name in the characters that `node.name` allows. */
function hostName(): string {
  const name = os.hostname().replace(/[^A-Za-z0-9._-]/g, '-')
  return name.slice(0, 64) || 'node'
}
