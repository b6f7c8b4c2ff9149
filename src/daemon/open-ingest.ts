/** Opens ingest and its counters on top of open stores. Usage and quotas continue from the values of the last run. */
import { availableParallelism } from 'node:os'
import type { HttpEngine } from '../api/http/engine.ts'
import { type IngestThreads, openIngestThreads } from '../api/ingest-threads/ingest-threads.ts'
import { servesDataOverTls } from '../api/surfaces.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { createQuota } from '../ingest/admission.ts'
import { openBodyParsers } from '../ingest/body-parsers.ts'
import type { ClientIp } from '../ingest/client-ip.ts'
import { createClusterQuota } from '../ingest/cluster-quota.ts'
import { KeyUse, type KeyUseOptions } from '../ingest/directory/directory-cache.ts'
import { openGeo } from '../ingest/geo.ts'
import { createIngest, type Ingest } from '../ingest/ingest.ts'
import type { IngestObserved } from '../ingest/observed.ts'
import type { BodyMemory } from '../ingest/shared-counters.ts'
import {
  IngestTotals,
  missedUsage,
  startUsageFlush,
  UsageCounter,
  type UsageObserver,
} from '../ingest/usage.ts'
import { ConfigError } from '../platform/config-error.ts'
import { endsWithin } from '../platform/deadline.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import { dayMs } from '../platform/quantities.ts'
import { Semaphore } from '../platform/semaphore.ts'
import { logSettings } from '../settings/log-settings.ts'
import type { Settings } from '../settings/settings.ts'
import type { Stores } from './open-stores.ts'
import type { StartContext } from './start-context.ts'

export interface Accounting {
  usage: UsageCounter
  /** Counts the requests of one ingest thread. Without ingest threads, the main thread is number 0. */
  usageOf(worker: number): UsageObserver
  ingestTotals: IngestTotals
  keyUse: KeyUse
}

/** Shorter than the deadline of the step in shutdown-steps.ts. */
const saveUsageMs = 4_000

/** Opens the counters of ingest, which are saved in metadata every few seconds. */
export async function openAccounting(stores: Stores, { log, shutdown }: StartContext): Promise<Accounting> {
  const { cluster, now, metadata, buffer, directory } = stores
  const totals = cluster === null ? await buffer.appended() : null
  const ingestTotals = new IngestTotals()
  const usage = new UsageCounter(totals)
  const workers: UsageObserver[] = []
  const usageOf = (worker: number) => (workers[worker] ??= ingestTotals.observe(usage, worker))
  if (totals !== null) usage.restore(await missedUsage(metadata.usage, totals, directory, now()))
  const usageFlush = startUsageFlush({ counter: usage, usage: metadata.usage, directory, log })
  await usageFlush.flush().catch((error) => {
    // On a full disk the counts stay in memory until there is space.
    if (!(error instanceof StorageUnavailableError)) throw error
    log.warn({ err: error }, 'usage.flush_failed')
  })
  const store: KeyUseOptions['store'] = (ids, minuteMs) => metadata.apiKeys.used(ids, minuteMs)
  const keyUse = new KeyUse({ directory, store, now })
  const endKeyUse = keyUse.start(log)
  shutdown.set('save usage', async () => {
    endKeyUse()
    const isKept = (error: unknown) => {
      // The next start counts the records that were accepted but not saved here, from the buffer.
      if (!(error instanceof StorageUnavailableError)) throw error
      log.warn({ err: error }, 'usage.flush_failed')
    }
    const save = async () => {
      await keyUse.flush().catch(isKept)
      await usageFlush.close().catch(isKept)
    }
    // A database that does not respond in time is treated as unreachable.
    if (!(await endsWithin(saveUsageMs, save()))) log.warn({ limit_ms: saveUsageMs }, 'usage.flush_failed')
  })
  return { usage, usageOf, ingestTotals, keyUse }
}

export async function openIngest(
  settings: Settings,
  parts: Stores & Accounting & { clientIp: ClientIp; bodyMemory: BodyMemory; observed: IngestObserved },
  { log, shutdown }: StartContext,
): Promise<Ingest> {
  const { quotas } = parts
  const geo = await openGeo({ file: settings['geoip.database'], log })
  shutdown.set('close geolocation', () => geo.close())
  const maxBodyBytes = settings['ingest.max_body_bytes']
  const parsers = openBodyParsers(maxBodyBytes * resourceLimits.parserHeapPerBodyByte)
  shutdown.set('close parsers', () => parsers.close())
  const nowMs = parts.now()
  shutdown.set('drain ingest', async () => {
    // A request that is parked appends its other records afterwards.
    await parts.parking.drain()
    await parts.buffer.appender.drain()
  })
  const quota =
    quotas === null
      ? createQuota(await ingestedToday(parts, nowMs), nowMs, parts.counters)
      : createClusterQuota(parts.counters, (...asked) => quotas.reserve(...asked))
  return createIngest({
    ...parts,
    usage: parts.usageOf(0),
    authenticate: parts.authenticateSender,
    appender: parts.buffer.appender,
    geo,
    quota,
    decoders: new Semaphore(resourceLimits.decodersAtOnce),
    parsers,
    maxBodyBytes,
    maxRecords: settings['ingest.max_records_per_request'],
    maxKeys: settings['ingest.max_keys_per_record'],
    now: parts.now,
  })
}

/**
 * Opens ingest in threads of its own, if `ingest.workers` is greater than 1. The writer reports their appends for the
 * counters. A metadata change is complete when every thread has seen it.
 */
export async function openThreadedIngest(
  count: number,
  settings: Settings,
  parts: Stores & Accounting & { observed: IngestObserved },
  { log, shutdown, onThreadFailed }: StartContext & { onThreadFailed(error: Error): void },
): Promise<IngestThreads> {
  const { quotas, buffer, changes, counters, directorySource, usageOf } = parts
  const nowMs = parts.now()
  // Initializes the counters with the usage of the current day.
  if (quotas === null) createQuota(await ingestedToday(parts, nowMs), nowMs, counters)
  let geoBytes: SharedArrayBuffer | null = null
  let threads: IngestThreads | null = null
  const geo = await openGeo({
    file: settings['geoip.database'],
    log,
    onLoaded: (bytes) => {
      geoBytes = bytes
      threads?.loadGeo(bytes)
    },
  })
  shutdown.set('close geolocation', () => geo.close())
  buffer.onSharedAppends((appends) => {
    for (const { appender, pipeId, lastMs, ...added } of appends)
      usageOf(appender).accepted(pipeId, lastMs, added)
  })
  const opened = await openIngestThreads({
    count,
    data: {
      log: logSettings(settings),
      counters: counters.memory,
      observed: parts.observed.memory,
      geo: geoBytes,
      trustedProxies: settings.trusted_proxies,
      maxInFlightBytes: settings['ingest.max_in_flight_bytes'],
      maxBodyBytes: settings['ingest.max_body_bytes'],
      maxRecords: settings['ingest.max_records_per_request'],
      maxKeys: settings['ingest.max_keys_per_record'],
      decoders: shareOf(resourceLimits.decodersAtOnce, count),
      parsers: shareOf(resourceLimits.parserThreads, count),
    },
    shareAppender: () => buffer.shareAppender(),
    source: directorySource,
    askQuota: quotas && ((...asked) => quotas.reserve(...asked)),
    parking: parts.parking,
    usageOf,
    onKeysUsed: (apiKeyIds) => parts.keyUse.used(apiKeyIds),
    onFatal: onThreadFailed,
  })
  threads = opened
  // Loaded while the threads started.
  if (geoBytes !== null) opened.loadGeo(geoBytes)
  changes.subscribe((change) => opened.refresh(change))
  shutdown.set('drain ingest', async () => {
    await parts.parking.drain()
    await opened.drain()
    await buffer.appender.drain()
    // The writer responds after its reports of appends, so usage includes them when it is saved.
    await buffer.headSeq()
  })
  shutdown.set('close parsers', () => opened.close())
  return opened
}

/** The share of one thread: an equal part, at least 1. */
function shareOf(all: number, threads: number): number {
  return Math.max(1, Math.floor(all / threads))
}

/** Throws ConfigError if the engine cannot share an address between threads. */
export function ingestWorkers(settings: Settings, engine: HttpEngine['name']): number {
  const wanted = settings['ingest.workers']
  const isOverTls = servesDataOverTls(settings)
  if (wanted === 'auto') {
    if (isOverTls) return 1
    if (engine !== 'uws' || process.platform !== 'linux') return 1
    return Math.min(resourceLimits.ingestWorkersByItself, Math.max(1, availableParallelism() - 1))
  }
  if (wanted > 1 && isOverTls)
    throw new ConfigError(
      `ingest.workers: must be 1 or auto if ingest uses TLS, which the main thread serves, not ${wanted}`,
    )
  if (wanted > 1 && engine !== 'uws')
    throw new ConfigError(
      `ingest.workers: must be 1 or auto with http.engine node, because its threads cannot share an address, not ${wanted}`,
    )
  return wanted
}

/** Sums stored usage and usage that is not stored yet. */
async function ingestedToday({ metadata, usage }: Stores & Accounting, nowMs: number) {
  const today = await metadata.usage.ingestedSince(nowMs - (nowMs % dayMs))
  for (const { pipeId, records, bytes } of usage.pending()) {
    const stored = today[pipeId] ?? { records: 0, bytes: 0 }
    today[pipeId] = { records: stored.records + records, bytes: stored.bytes + bytes }
  }
  return today
}
