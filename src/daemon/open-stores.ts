/**
 * Opens the stores of the daemon and their threads. Metadata comes first: it knows the owner of the buffer and the
 * seqs that were assigned. The buffer with its writer thread follows, then the delivery worker, which reads both. A
 * call of `onFatal` ends the process. A full disk throws; `start-when-space.ts` waits for space.
 */
import type { AuditEntry } from '../contract/audit.ts'
import type { Rereads } from '../delivery/delivery.ts'
import { type DeliveryHandle, openDelivery } from '../delivery/delivery-proxy.ts'
import type { DriverSettings, EgressPolicy } from '../destinations/driver.ts'
import { driverSettings } from '../destinations/driver-settings.ts'
import { type Authenticate, createAuthenticate, openDirectory } from '../ingest/directory/directory-cache.ts'
import { ParkQueue } from '../ingest/parked/queue.ts'
import { SharedCounters } from '../ingest/shared-counters.ts'
import type { OpenBuffer } from '../log/buffer.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import { metadataSpec, openDataDirMetadata, requireWorkspace } from '../maintenance/data-dir.ts'
import { type Change, type Changes, localChanges } from '../metadata/changes.ts'
import type { Directory, DirectorySource } from '../metadata/directory-source.ts'
import type { Metadata } from '../metadata/store.ts'
import { type HistoryHandle, openHistory } from '../observe/history/history-proxy.ts'
import { endsWithin } from '../platform/deadline.ts'
import type { Logger } from '../platform/log.ts'
import { logSettings } from '../settings/log-settings.ts'
import type { Settings } from '../settings/settings.ts'
import { knownBuffer } from '../stores/known-buffer.ts'
import { openBuffer, openBufferReader } from '../stores/open-log.ts'
import type { MetadataOptions } from '../stores/open-metadata.ts'
import {
  type AcrossNodes,
  authenticateWhileLive,
  type Cluster,
  openAcrossNodes,
  openCluster,
} from './open-cluster.ts'
import { prepareReplica, type StartedReplica, startReplica } from './open-replica.ts'
import { exitWhenDead, type StartContext } from './start-context.ts'
import { WorkspaceCount } from './workspace-count.ts'

/** The same limit as for commands of a lane: lane-service.ts. */
const refreshDeadlineMs = 10_000

export interface Stores {
  /** Null: a single machine. */
  cluster: Cluster | null
  /** In a cluster: reserves parts of limits that all nodes share. */
  quotas: AcrossNodes['quotas'] | null
  /** The wall clock in ms. In a cluster it is the database's clock, as far as it is known. */
  now(): number
  metadata: Metadata
  changes: Changes
  buffer: OpenBuffer
  delivery: DeliveryHandle
  /** Null in a cluster. */
  rereads: Rereads | null
  history: HistoryHandle
  directory: Directory
  /** The source of the directory, for its copies in other threads. */
  directorySource: DirectorySource
  authenticate: Authenticate
  /** Authentication for ingest. The buffer rejects appends while this node is disconnected from its cluster. */
  authenticateSender: Authenticate
  /** The counters of ingest, shared by its threads. */
  counters: SharedCounters
  /** Null: there is no replica. */
  replica: StartedReplica | null
  /** Parks records that do not match the schema of their pipe. */
  parking: ParkQueue
  /** The policy in effect. With `egress.private = "auto"` the second workspace changes it. */
  egress: EgressPolicy
  /** The settings of destinations, for requests outside of delivery. */
  drivers: DriverSettings
}

/** Opens metadata, the buffer with its writer thread, and the delivery worker with all lanes. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the start is a sequence, read best in one place.
export async function openStores(
  settings: Settings,
  bare: BufferSpec,
  context: StartContext,
): Promise<Stores> {
  const { env, log, shutdown } = context
  const onNoSpace = (error: Error) => log.warn({ err: error }, 'metadata.no_space')
  const onAudited: MetadataOptions['onAudited'] = (workspaceId, entry) =>
    log.info(auditLine(workspaceId, entry), 'audit')
  const onUpgraded: MetadataOptions['onUpgraded'] = ({ fromFormat, toFormat, copy }) =>
    log.info({ from_format: fromFormat, to_format: toFormat, copy }, 'metadata.upgraded')
  const options = { create: false, onNoSpace, onUpgraded, onAudited }
  const { metadata, sealingKey } = await openDataDirMetadata(settings, env, options)
  prepareReplica(settings)
  const workspaces = new WorkspaceCount(metadata.workspaces)
  let endWatch = () => {}
  shutdown.set('close metadata', () => {
    endWatch()
    return metadata.close()
  })
  await requireWorkspace(settings, metadata)
  await workspaces.refresh()
  const drivers = driverSettings(settings, workspaces.memory)
  if (drivers.egress.private === 'auto')
    endWatch = workspaces.watch(log, () =>
      log.info({ workspaces: workspaces.value }, 'egress.private_denied'),
    )
  const cluster = await openCluster(settings, metadata, context)
  const spec: BufferSpec = { ...bare, ...(await knownBuffer(metadata)) }
  const buffer = await openBuffer(spec, {
    log: logSettings(settings),
    liveness: cluster?.node.liveness ?? null,
    keys: metadata.cluster?.keys ?? null,
    onFatal: exitWhenDead('buffer', context),
  })
  shutdown.set('close buffer', () => buffer.close())
  shutdown.set('drain ingest', () => buffer.appender.drain())
  const replica = await startReplica(settings, { spec, buffer, sealingKey }, context)
  let announce = (_pipeId: string): void => {}
  const local = await openDelivery({
    buffer: spec,
    metadata: metadataSpec(settings),
    openReader: (log) => openBufferReader(spec, log),
    stored: metadata,
    sealingKey,
    nodeId: cluster?.node.nodeId ?? null,
    driverSettings: drivers,
    maxInFlightBytes: settings['delivery.max_in_flight_bytes'],
    maxParkedBytes: settings['parked.max_bytes'],
    log: logSettings(settings),
    isSafe: context.isSafe ?? false,
    replica: replica && { target: replica.target, isSync: replica.stored !== null },
    onReplicaAwaited: () => replica?.wake(),
    // Before the directory is open there is no copy to read again.
    onPipeChanged: (pipeId) => announce(pipeId),
    onFatal: exitWhenDead('delivery', context),
  })
  if (replica !== null) replica.onStoredBefore = local.replicated
  shutdown.set('close delivery', () => local.close())
  const counters = new SharedCounters()
  const parts = { local, buffer: spec, metadata, counters }
  const across = cluster && (await openAcrossNodes(cluster, parts, context))
  const delivery = across?.delivery ?? local
  shutdown.set('close delivery', () => delivery.close())
  shutdown.set('end waiting pulls', () => delivery.endPulls())
  const history = openHistory({ buffer: spec, log: logSettings(settings) })
  shutdown.set('close history', () => history.close())
  const directorySource: DirectorySource = {
    ...metadata.directory,
    async key(hash) {
      const key = await metadata.directory.key(hash)
      // Another process created the key, and perhaps its workspace.
      if (key !== null) await workspaces.refresh()
      return key
    },
  }
  const directory = await openDirectory(directorySource, {
    onPipeDeleted: (pipeId) => {
      counters.giveUp(pipeId)
      across?.quotas.forget(pipeId)
    },
  })
  const changes = cluster?.node.changes ?? localChanges()
  changes.subscribe((change) => refreshDirectory(directory, change))
  changes.subscribe((change) => refreshLanes(delivery, change, log))
  announce = (pipeId) => {
    changes.publish({ pipeId }).catch((err) => log.warn({ err, pipe_id: pipeId }, 'changes.not_published'))
  }
  const authenticateSender = createAuthenticate(directory)
  const authenticate =
    cluster === null ? authenticateSender : authenticateWhileLive(cluster, authenticateSender)
  const { egress } = drivers
  return {
    cluster,
    quotas: across?.quotas ?? null,
    now: cluster === null ? Date.now : () => cluster.node.clock.now(),
    metadata,
    changes,
    buffer,
    delivery,
    rereads: cluster === null ? local : null,
    history,
    directory,
    directorySource,
    authenticate,
    authenticateSender,
    counters,
    replica,
    parking: new ParkQueue(metadata.pipeParked, settings['parked.max_bytes'], replica?.stored ?? null),
    egress,
    drivers,
  }
}

/** Names the user and the action. The state before and after is only in the audit log. */
function auditLine(workspaceId: string, entry: AuditEntry): object {
  const { audit_id, operation, actor, address, resource_id, pipe_id } = entry
  return {
    workspace_id: workspaceId,
    audit_id,
    operation,
    resource_id,
    pipe_id,
    address,
    actor_kind: actor.kind,
    actor_id: actor.id,
    actor_name: actor.name,
  }
}

/** Resolves when requests see the change. */
async function refreshDirectory(directory: Directory, change: Change): Promise<void> {
  if ('pipeId' in change) await directory.refreshPipe(change.pipeId)
  else await directory.refreshKey(change.apiKeyId)
}

/**
 * Resolves when the lanes of the pipe match metadata, or after a deadline. A lane whose state cannot be saved on a
 * full disk follows later. The change itself is stored already.
 */
async function refreshLanes(delivery: DeliveryHandle, change: Change, log: Logger): Promise<void> {
  if (!('pipeId' in change)) return
  const { pipeId } = change
  const refreshed = delivery.refresh(pipeId)
  if (await endsWithin(refreshDeadlineMs, refreshed)) return
  log.warn({ pipe_id: pipeId }, 'lanes.refresh_delayed')
  refreshed.catch((error) => log.error({ pipe_id: pipeId, err: error }, 'lanes.refresh_failed'))
}
