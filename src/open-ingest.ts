/** Opens ingest and what it counts, over stores that are open: usage and quotas go on where the last run stopped. */
import { resourceLimits } from './contract/resource-limits.ts'
import { StorageUnavailableError } from './error-code.ts'
import { createIngest, type Ingest } from './ingest/accept.ts'
import type { BodyMemory } from './ingest/body-memory.ts'
import { openBodyParsers } from './ingest/body-parsers.ts'
import type { ClientIp } from './ingest/client-ip.ts'
import { openGeo } from './ingest/geo.ts'
import { createQuota } from './ingest/quota.ts'
import { createIngestTotals, type IngestTotals } from './ingest/totals.ts'
import { Turns } from './ingest/turns.ts'
import { createUsageCounter, missedUsage, startUsageFlush, type UsageCounter } from './ingest/usage.ts'
import type { StartContext, Stores } from './open-stores.ts'
import { dayMs } from './quantities.ts'
import type { Settings } from './settings.ts'

export interface Accounting {
  usage: UsageCounter
  ingestTotals: IngestTotals
}

/** What ingest counts: carried into metadata every few seconds. */
export async function openAccounting(stores: Stores, { log, shutdown }: StartContext): Promise<Accounting> {
  const { metadata, buffer, directory } = stores
  const totals = await buffer.appended()
  const ingestTotals = createIngestTotals()
  const usage = ingestTotals.observe(createUsageCounter(totals))
  usage.restore(await missedUsage(metadata.usage, totals, directory, Date.now()))
  const usageFlush = startUsageFlush({ counter: usage, usage: metadata.usage, directory, log })
  await usageFlush.flush().catch((error) => {
    // On a full disk it is counted in memory until there is room.
    if (!(error instanceof StorageUnavailableError)) throw error
    log.warn({ err: error }, 'usage.flush_failed')
  })
  shutdown.set('save usage', () =>
    usageFlush.close().catch((error) => {
      // The next start finds in the buffer what was accepted and not stored.
      if (!(error instanceof StorageUnavailableError)) throw error
      log.warn({ err: error }, 'usage.flush_failed')
    }),
  )
  return { usage, ingestTotals }
}

export async function openIngest(
  settings: Settings,
  parts: Stores & Accounting & { clientIp: ClientIp; bodyMemory: BodyMemory },
  { log, shutdown }: StartContext,
): Promise<Ingest> {
  const geo = await openGeo({ file: settings['geoip.database'], log })
  shutdown.set('close geolocation', () => geo.close())
  const maxBodyBytes = settings['ingest.max_body_bytes']
  const parsers = openBodyParsers(maxBodyBytes * resourceLimits.parserHeapPerBodyByte)
  shutdown.set('close parsers', () => parsers.close())
  const nowMs = Date.now()
  return createIngest({
    ...parts,
    appender: parts.buffer.appender,
    geo,
    quota: createQuota(await ingestedToday(parts, nowMs), nowMs, parts.counters),
    decoders: new Turns(resourceLimits.decodersAtOnce),
    parsers,
    maxBodyBytes,
    maxRecords: settings['ingest.max_records_per_request'],
    maxKeys: settings['ingest.max_keys_per_record'],
    now: Date.now,
  })
}

/** Stored, and counted but not stored yet. */
async function ingestedToday({ metadata, usage }: Stores & Accounting, nowMs: number) {
  const today = await metadata.usage.ingestedSince(nowMs - (nowMs % dayMs))
  for (const { pipeId, records, bytes } of usage.pending()) {
    const stored = today[pipeId] ?? { records: 0, bytes: 0 }
    today[pipeId] = { records: stored.records + records, bytes: stored.bytes + bytes }
  }
  return today
}
