/** Housekeeping: deletes expired data and the state of deleted pipes. */
import { resourceLimits } from '../contract/resource-limits.ts'
import { usageHours } from '../contract/usage.ts'
import type { LaneCommands } from '../delivery/delivery.ts'
import { keyLifetimeMs } from '../log/key-store.ts'
import type { Logger } from '../platform/log.ts'
import { dayMs, hourMs, minuteMs } from '../platform/quantities.ts'
import type { Accounting } from './open-ingest.ts'
import type { Stores } from './open-stores.ts'
import type { StartContext } from './start-context.ts'

/** The hours that clients can request, and one more day. */
const usageKeptMs = usageHours.max * hourMs + dayMs
const auditKeptMs = resourceLimits.auditDays * dayMs
const revokedKeysKeptMs = resourceLimits.revokedApiKeyDays * dayMs
/** After this time, appends that were in progress when the pipe was deleted are in the buffer. */
const deletedPipesKeptMs = 15 * minuteMs

export function startHousekeeping(
  parts: Stores & Accounting,
  parkedDays: number,
  { log, shutdown }: StartContext,
): void {
  // In a cluster, only one node works on the shared stores.
  const duty = parts.cluster?.node.lease('housekeeping') ?? null
  const onDuty = async (run: () => Promise<void>) => {
    if (duty === null || (await duty.isMine())) await run()
  }
  const every = (ms: number, run: () => Promise<void>) => {
    const timer = setInterval(() => {
      if (shutdown.isRunning) clearInterval(timer)
      else run().catch((error) => log.error({ err: error }, 'housekeeping.failed'))
    }, ms)
    timer.unref()
  }
  every(hourMs, () => onDuty(() => prune(parts)))
  every(hourMs, () => onDuty(() => dropOldParked(parts, parts.now() - parkedDays * dayMs, log)))
  every(hourMs, () => onDuty(() => dropOldPipeParked(parts, parts.now() - parkedDays * dayMs, log)))
  every(deletedPipesKeptMs, async () => {
    forgetCounts(parts)
    await onDuty(() => forgetDeletedPipes(parts, parts.now()))
  })
}

async function prune({ metadata, now }: Stores): Promise<void> {
  await metadata.usage.prune(now() - usageKeptMs)
  await metadata.apiKeys.prune(now() - revokedKeysKeptMs)
  await metadata.audit.prune(now() - auditKeptMs)
  const { sessionIdleSeconds, sessionSeconds } = resourceLimits
  await metadata.sessions.prune(now() - sessionIdleSeconds * 1_000, now() - sessionSeconds * 1_000)
  await metadata.cluster?.keys.prune()
}

/**
 * Deletes parked records that were neither replayed nor discarded before the deadline. Counts them on their lanes.
 */
export async function dropOldParked(
  { metadata, delivery }: Pick<Stores, 'metadata'> & { delivery: Pick<LaneCommands, 'parkedChanged'> },
  beforeMs: number,
  log: Logger,
): Promise<void> {
  for (const [destinationId, records] of await metadata.parked.prune(beforeMs)) {
    log.warn({ destination_id: destinationId, records }, 'lane.parked_dropped')
    await delivery.parkedChanged(destinationId)
  }
}

/**
 * Deletes records parked at pipes that were neither replayed nor discarded before the deadline, and the marks of removed
 * ones once no repeat of their request is recognized any more.
 */
export async function dropOldPipeParked(
  { metadata, now }: Pick<Stores, 'metadata' | 'now'>,
  beforeMs: number,
  log: Logger,
): Promise<void> {
  for (const [pipeId, records] of await metadata.pipeParked.prune(beforeMs, now() - keyLifetimeMs))
    log.warn({ pipe_id: pipeId, records }, 'pipe.parked_dropped')
}

/** Removes this process's counters of deleted pipes. */
export function forgetCounts({
  directory,
  usage,
  ingestTotals,
}: Pick<Stores, 'directory'> & Pick<Accounting, 'usage' | 'ingestTotals'>): void {
  const isPipe = (pipeId: string) => directory.pipe(pipeId) !== undefined
  usage.forget(isPipe)
  ingestTotals.ofPipes(isPipe)
}

/**
 * Reads the ids of deleted pipes before the pipes in the buffer. A deleted pipe that is not in the buffer then gets
 * no further message, so a crash after its row is removed leaves no orphaned messages.
 */
export async function forgetDeletedPipes(
  { metadata, buffer }: Pick<Stores, 'metadata'> & { buffer: Pick<Stores['buffer'], 'appended'> },
  nowMs: number,
): Promise<void> {
  const deleted = await metadata.laneSource.deletedPipes(nowMs - deletedPipesKeptMs)
  if (deleted.length === 0) return
  const inBuffer = await buffer.appended()
  const gone = deleted.filter((pipeId) => !inBuffer.has(pipeId))
  if (gone.length > 0) await metadata.laneSource.forgetDeletedPipes(gone)
}
