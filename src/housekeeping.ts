/** What is kept for a while only: removed every hour. */
import { resourceLimits } from './contract/resource-limits.ts'
import type { StartContext, Stores } from './open-stores.ts'
import { dayMs, hourMs } from './quantities.ts'

/** Roll-ups older than this are of no use to the 24 h window or the day quotas. */
const usageKeptMs = 8 * dayMs
const revokedKeysKeptMs = resourceLimits.revokedApiKeyDays * dayMs

export function startHousekeeping({ metadata }: Stores, { log, shutdown }: StartContext): void {
  const prune = async () => {
    await metadata.usage.prune(Date.now() - usageKeptMs)
    await metadata.apiKeys.prune(Date.now() - revokedKeysKeptMs)
  }
  const timer = setInterval(() => {
    if (shutdown.isRunning) clearInterval(timer)
    else prune().catch((error) => log.error({ err: error }, 'metadata.prune_failed'))
  }, hourMs)
  timer.unref()
}
