/** Housekeeping: removes data that is kept for a limited time only, and the state of deleted pipes. */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { LaneCommands } from '../delivery/delivery.ts'
import type { Logger } from '../platform/log.ts'
import { dayMs, hourMs, minuteMs } from '../platform/quantities.ts'
import type { Accounting } from './open-ingest.ts'
import type { Stores } from './open-stores.ts'
import type { StartContext } from './start-context.ts'

/** Roll-ups older than this are of no use to the 24 h window or the day quotas. */
const usageKeptMs = 8 * dayMs
const auditKeptMs = resourceLimits.auditDays * dayMs
const revokedKeysKeptMs = resourceLimits.revokedApiKeyDays * dayMs
/** By then an append of the pipe that was under way when it was deleted is in the buffer. */
const deletedPipesKeptMs = 15 * minuteMs

export function startHousekeeping(
  parts: Stores & Accounting,
  parkedDays: number,
  { log, shutdown }: StartContext,
): void {
  // In a cluster one node of all does what is about the shared stores.
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

/** Drops parked records that were neither replayed nor discarded in all that time. Counted on their lanes. */
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

/** Removes this process's counts of pipes that are deleted. */
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
 * The ids of deleted pipes are read before what the buffer holds: one that it does not hold then gets no message any more,
 * so a crash after its row is gone leaves nothing behind that nobody owns.
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
