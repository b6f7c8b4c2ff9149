/**
 * The delivery worker: opens the parts that lanes need, then serves calls of the main thread.
 *
 *   main ──call────▶ lane service ──▶ lane set ──▶ lane ──▶ driver ──▶ destination
 *        ◀──result──                     │
 *   writer ──committed, dropped──▶ feed ──low watermarks──▶ writer
 *
 * An error outside a call ends the worker, and the main thread starts another one: a lane that can no longer save or read must
 * not look alive. Files that cannot be read or written end the process. Main reads the cause from the worker's board.
 */
import type { PipeLeases } from '../../cluster/leases.ts'
import type { LogUsage } from '../../cluster/log-usage.ts'
import { current, timelineOf } from '../../contract/epochs.ts'
import { driverCrashed, systemClock } from '../../delivery/clock.ts'
import { ColumnAdder } from '../../delivery/column-adder.ts'
import { Containment, WorkerBoard } from '../../delivery/containment.ts'
import type { DeliveryCalls, DeliveryReports, DeliveryThreadData } from '../../delivery/delivery-worker.ts'
import { DriftWatch } from '../../delivery/drift.ts'
import { keepHistoryShort } from '../../delivery/history-keeper.ts'
import { isolatedDrivers } from '../../delivery/isolated-driver.ts'
import { namesOf } from '../../delivery/lane-log.ts'
import { openLaneService } from '../../delivery/lane-service.ts'
import { LaneSet } from '../../delivery/lane-set.ts'
import { ownedLanes } from '../../delivery/owned-lanes.ts'
import { allBlocked } from '../../delivery/stored-lanes.ts'
import { TransformThreads } from '../../delivery/transform/transform-threads.ts'
import type { PinServerKey } from '../../destinations/driver.ts'
import { openDriver } from '../../destinations/drivers.ts'
import { ReplicaBarrier } from '../../log/replica-barrier.ts'
import { requireShared } from '../../metadata/cluster-store.ts'
import type { LaneOwner, LaneOwnership } from '../../metadata/lane-ownership.ts'
import {
  type LaneSpec,
  type LaneState,
  LaneStoreUnavailableError,
  ownsEverything,
} from '../../metadata/lane-state.ts'
import type { NewParked } from '../../metadata/parked-store-port.ts'
import { endsWithin } from '../../platform/deadline.ts'
import {
  errorCode,
  isNoSpace,
  LaneElsewhereError,
  StorageUnavailableError,
} from '../../platform/error-code.ts'
import { openLog } from '../../platform/log.ts'
import { describeFatalErrors, inWords, isStorageError } from '../../platform/storage-error.ts'
import { ThreadHost, Transferred } from '../../platform/thread-calls.ts'
import { bufferPlace, openBufferContact, openBufferFeed, openBufferReader } from '../../stores/open-log.ts'
import { openMetadata } from '../../stores/open-metadata.ts'

const host = new ThreadHost<DeliveryThreadData, DeliveryCalls, DeliveryReports>({
  errors: { LaneStoreUnavailableError },
})
const { data } = host
const log = openLog(data.log, 'delivery')
const doing = ['delivering from the buffer in', bufferPlace(data.buffer)] as const
const board = new WorkerBoard(data.board)
const guard = new Containment({
  board,
  openIsolated: (spec) => isolated.open(spec, pinFor(spec)),
  quarantined: data.quarantined,
  suspects: data.suspects,
  onFinished: (destinationId) => host.tell('finished', [destinationId]),
  onDeliveredApart: (destinationId) => host.tell('deliveredApart', [destinationId]),
})
// This is the only point at which the lane whose code threw is still known. Later the error is serialized and thrown
// again.
process.on('uncaughtException', (error) => {
  if (guard.current !== undefined) board.blame(guard.current)
  else if (isOfStorage(error)) board.storageFailed()
})
describeFatalErrors(...doing)

const metadata = await openMetadata(data.metadata, data.sealingKey)
const { dataDirId, epochs } = await metadata.identity()
const driverSettings = {
  ...data.driverSettings,
  epoch: current(epochs).epoch,
  timeline: timelineOf(dataDirId, epochs, data.replica?.target),
}
const replica =
  data.replica?.isSync === true ? new ReplicaBarrier(() => host.tell('replicaAwaited', [])) : null
const isolated = isolatedDrivers(driverSettings)
const contact = await openBufferContact(data.buffer)
const leases = data.nodeId === null ? null : await openLeases(data.nodeId)
const ownership: LaneOwnership = leases ?? ownsEverything
const reader = await openBufferReader(data.buffer, log, {
  owns: (pipeId) => ownership.owned(pipeId) !== null,
})
const feed = await openBufferFeed(data.buffer, {
  reader,
  log,
  owned: (pipeId) => ownership.owned(pipeId),
  keyAttempts: metadata.cluster?.keys.attempts,
})
/** The actor of changes that no user makes. */
const theService = { kind: 'local', id: null, name: 'pipectl', address: null, operation: null } as const
const transforms = new TransformThreads()
/** Trials have their own threads, so that they do not delay delivery. */
const trials = new TransformThreads()
const columns = new ColumnAdder({
  store: metadata.as(theService).addedColumns,
  infer: (spec, signal, request) => isolated.infer(spec, signal, request),
  pinnedKey: async ({ workspaceId, destinationId }) =>
    (await metadata.destinations.get({ workspaceId, destinationId }))?.tls_pin?.sha256 ?? null,
  onAdded(pipeId) {
    // The lanes do not wait for main, which is possibly still starting.
    lanes.refresh(pipeId).catch((err) => log.warn({ err, pipe_id: pipeId }, 'lanes.refresh_failed'))
    host.tell('columnsAdded', [pipeId])
  },
  clock: systemClock,
  log,
})
const lanes = new LaneSet({
  source: data.isSafe ? allBlocked(metadata.laneSource) : metadata.laneSource,
  store: { ...metadata.laneStore, take: takeLane },
  ownership,
  reader,
  feed,
  openDriver: (spec) => openDriver(spec, driverSettings, pinFor(spec)),
  steps: { transforms, guard, drift: new DriftWatch(metadata.driftStore, systemClock, log), columns },
  clock: systemClock,
  random: Math.random,
  log,
  maxInFlightBytes: data.maxInFlightBytes,
  parked: { store: { ...metadata.parkedStore, park }, maxBytes: data.maxParkedBytes },
  epochs,
  replica,
  onLaneGone: (lane, isLast) => transforms.laneGone(lane, isLast),
  onFatal: fail,
})
const usage = leases === null ? null : await openLogUsage()
const allLanes = openLaneService({
  lanes,
  reader,
  clock: systemClock,
  countUsage: async (pipeId) => usage?.countPipe(pipeId),
  // Trials take turns per pipe, because the workspace is not known here.
  runTransform: (pipeId, transform, bodies, signal) =>
    trials.run({ workspaceId: pipeId, destinationId: pipeId }, transform, bodies, signal),
  check: (spec, signal, sample) => isolated.check(spec, signal, sample),
  infer: (spec, signal, request) => isolated.infer(spec, signal, request),
  forget: async ({ destinationId, ...spec }, signal) => {
    try {
      await isolated.forget({ destinationId, ...spec }, signal)
    } catch (err) {
      // The row is never read again, because a new destination gets another id.
      log.warn({ err, destination_id: destinationId }, 'destination.not_forgotten')
    }
  },
})
const service = ownership === ownsEverything ? allLanes : ownedLanes(allLanes, lanes, ownership)
if (data.endsPulls) lanes.endPulls()
await lanes.open()
usage?.start()
const endHistoryKeeper = keepHistoryShort({
  lanes,
  reader,
  store: metadata.laneStore,
  clock: systemClock,
  log,
})
host.serve(
  {
    ...service,
    reread: (pipeId) => allLanes.reread(pipeId),
    async pull(destinationId, request) {
      const result = await service.pull(destinationId, request)
      // Transfers the buffer of a pulled message instead of copying it.
      return result.kind === 'message' ? new Transferred(result, [result.json.buffer]) : result
    },
    release: (destinationId) => guard.release(destinationId),
    replicated: (beforeMs) => replica?.storedBefore(beforeMs),
    async close(graceMs) {
      try {
        await close(graceMs)
      } finally {
        // Exits after the response is sent. An abandoned driver can hold a connection, which would keep the thread
        // alive.
        setImmediate(() => process.exit())
      }
    },
  },
  { onFailure: callFailed },
)

/** Loaded only in a cluster. */
async function openLeases(nodeId: string): Promise<PipeLeases> {
  const { openPipeLeases } = await import('../../cluster/leases.ts')
  return await openPipeLeases({
    store: requireShared(metadata),
    nodeId,
    log,
    ...(contact === null ? {} : { buffer: () => contact.now }),
  })
}

/** Loaded only in a cluster. */
async function openLogUsage(): Promise<LogUsage> {
  const [{ LogUsage }, { markOf, zeroCounts }] = await Promise.all([
    import('../../cluster/log-usage.ts'),
    import('../../cluster/jetstream/position.ts'),
  ])
  const start = { seq: 0, mark: markOf(zeroCounts) }
  return new LogUsage({
    usage: metadata.usage,
    log,
    now: Date.now,
    pipeIds: () => lanes.pipeIds(),
    headSeq: (pipeId) => lanes.headSeq(pipeId),
    totals: (pipeId) => reader.backlog(pipeId, start),
  })
}

/**
 * The driver converts a rejection into an error of the destination. Errors that must end the worker are therefore
 * handled here.
 */
function pinFor(spec: LaneSpec): PinServerKey {
  const { destinationId, pinGeneration } = spec
  return async (sha256) => {
    try {
      const pinned = await metadata.pinStore.pin(destinationId, pinGeneration, sha256)
      if (pinned?.isNew) log.info({ ...namesOf(spec), sha256 }, 'destination.key_pinned')
      return pinned?.sha256 ?? null
    } catch (error) {
      if (isIoError(error)) fail(error)
      throw error
    }
  }
}

/** As in `pinFor`: the driver's error would hide that the disk failed. */
async function park(owner: LaneOwner, parked: readonly NewParked[]): Promise<void> {
  try {
    await metadata.parkedStore.park(owner, parked)
  } catch (error) {
    if (isIoError(error)) fail(error)
    throw error
  }
}

/** A lane that was quarantined when the process ended is quarantined again. */
async function takeLane(destinationId: string, epoch: number): Promise<LaneState | null> {
  const row = await metadata.laneStore.take(destinationId, epoch)
  if (row?.lastError?.code === driverCrashed) guard.quarantine(destinationId)
  return row
}

function callFailed(err: unknown, method: string): void {
  if (err instanceof LaneElsewhereError) return
  const isUnavailable = err instanceof StorageUnavailableError || err instanceof LaneStoreUnavailableError
  if (isUnavailable) log.warn({ err, method }, 'delivery.call_waits')
  else log.error({ err, method }, 'delivery.call_failed')
  if (isIoError(err)) fail(err)
}

/**
 * In addition to the grace period of attempts: 2 s to abort, 2 s to close a hanging driver, 3 s to save. The sum is
 * below the deadline in delivery-proxy.ts.
 */
const lanesMarginMs = 7_000
const handOverMs = 2_000
const closePartsMs = 1_000

/**
 * Saves every lane, releases the pipes and closes everything. Each part has a limit, so unreachable servers do not
 * block the others. A part that is cut off leaves the same state as a kill.
 */
async function close(graceMs: number): Promise<void> {
  endHistoryKeeper()
  columns.close()
  leases?.stopClaiming()
  const counted = usage?.close() ?? Promise.resolve()
  counted.catch(() => {})
  // Rows of lanes can still change: the pipes keep their owner until its lease expires.
  if (!(await endsWithin(graceMs + lanesMarginMs, lanes.close(graceMs))))
    throw new Error('not every lane has ended')
  // Every lane is saved, so another node can continue.
  await closes('pipes', handOverMs, () => counted.then(() => leases?.close()))
  await closes('parts', closePartsMs, closeParts)
  feed.close()
}

async function closeParts(): Promise<void> {
  await Promise.all([transforms.close(), trials.close(), contact?.close(), reader.close()])
  await metadata.close()
}

async function closes(what: string, limitMs: number, close: () => Promise<unknown>): Promise<void> {
  if (!(await endsWithin(limitMs, close()))) log.warn({ what, limit_ms: limitMs }, 'delivery.closed_early')
}

/** After a failed read or write, this thread's view of its files cannot be trusted. */
function isIoError(error: unknown): boolean {
  return !isNoSpace(error) && (errorCode(error)?.startsWith('SQLITE_IOERR') ?? false)
}

function isOfStorage(error: unknown): boolean {
  return isStorageError(inWords(error, ...doing))
}

function fail(error: unknown): void {
  log.fatal({ err: error }, 'delivery.fatal')
  if (isOfStorage(error)) board.storageFailed()
  setImmediate(() => {
    throw error
  })
}
