/** Metrics of ingest: accepted and rejected requests by pipe, errors by code, and the time to a 202. */
import { Counter, Gauge, type Registry } from 'prom-client'
import { errorCatalogue } from '../../contract/errors.ts'
import { addMismatches, type Mismatches, mismatchResults } from '../../contract/schema-words.ts'
import { addRejectedHooks, hookRefusalNames, type RejectedHooks } from '../../contract/source-words.ts'
import type { IngestObserved } from '../../ingest/observed.ts'
import type { IngestTotals, PipeTotals } from '../../ingest/usage.ts'
import type { ParkedAtPipe } from '../../metadata/pipe-parked-port.ts'
import { endsWithin } from '../../platform/deadline.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import { type Family, type FoldedSeries, registerFamily } from './families.ts'
import { registerHistogram } from './read-histogram.ts'

export interface IngestSources {
  totals: IngestTotals
  observed: IngestObserved
  /** True: counters are shown per ingest thread (label `worker`) and not as a sum. */
  labelWorkers: boolean
  /** The bytes of the bodies of all running requests. */
  bodyBytes(): number
  /** Undefined after the pipe is deleted. Its series end. */
  pipeName(pipeId: string): string | undefined
  /** The pipes that have parked records. */
  parkedAtPipes(): Promise<readonly ParkedAtPipe[]>
}

interface PipeCounts {
  pipeId: string
  name: string
  byWorker: ReadonlyMap<number, Readonly<PipeTotals>>
}

const pipeNames = {
  labelNames: ['pipe_id', 'pipe'],
  key: ({ pipeId }: Pick<PipeCounts, 'pipeId'>) => pipeId,
  labels: ({ pipeId, name }: Pick<PipeCounts, 'pipeId' | 'name'>) => ({ pipe_id: pipeId, pipe: name }),
}

function familiesOf(labelWorkers: boolean): Family<PipeCounts>[] {
  const counter = (
    name: string,
    help: string,
    value: (totals: PipeTotals) => number,
  ): Family<PipeCounts> => ({
    name,
    help,
    kind: 'counter',
    labelNames: labelWorkers ? ['worker'] : [],
    series: ({ byWorker }) => {
      const all = [...byWorker].sort(([a], [b]) => a - b)
      if (labelWorkers) return all.map(([worker, one]) => [{ worker: String(worker) }, value(one)])
      return [[{}, all.reduce((sum, [, one]) => sum + value(one), 0)]]
    },
  })
  return [
    counter('pipectl_ingest_requests_total', 'Requests accepted with 202.', ({ requests }) => requests),
    counter(
      'pipectl_ingest_records_total',
      'Records in requests accepted with 202.',
      ({ records }) => records,
    ),
    counter('pipectl_ingest_bytes_total', 'Bytes written to the buffer.', ({ bytes }) => bytes),
    counter(
      'pipectl_ingest_rejected_requests_total',
      'Requests rejected for a known pipe.',
      ({ rejected }) => rejected,
    ),
  ]
}

/** Only for pipes that rejected a webhook: every reason is a series. */
const rejectedHooks: Family<PipeCounts> = {
  name: 'pipectl_hooks_rejected_total',
  help: 'Webhooks of a known pipe that were rejected, by reason.',
  kind: 'counter',
  labelNames: ['reason'],
  series: ({ byWorker }) => {
    const sum: RejectedHooks = {}
    for (const totals of byWorker.values()) addRejectedHooks(sum, totals.rejectedHooks)
    return hookRefusalNames.map((reason) => [{ reason }, sum[reason] ?? 0])
  },
}

/** Only for pipes with such records: every result is a series. */
const mismatches: Family<PipeCounts> = {
  name: 'pipectl_schema_mismatches_total',
  help: 'Records that did not match the schema of their pipe, by result.',
  kind: 'counter',
  labelNames: ['result'],
  series: ({ byWorker }) => {
    const sum: Mismatches = {}
    for (const totals of byWorker.values()) addMismatches(sum, totals.mismatches)
    return mismatchResults.map((result) => [{ result }, sum[result] ?? 0])
  },
}

function hasMismatches({ byWorker }: PipeCounts): boolean {
  return [...byWorker.values()].some((totals) => Object.keys(totals.mismatches).length > 0)
}

function hasRejectedHooks({ byWorker }: PipeCounts): boolean {
  return [...byWorker.values()].some((totals) => Object.keys(totals.rejectedHooks).length > 0)
}

/** A scrape usually ends after ten seconds. */
const metadataLimitMs = 2_000

/** Only for pipes with such records. In a cluster every node shows all of them. */
const parkedFamily: Family<Pick<ParkedAtPipe, 'pipeId' | 'records'> & { name: string }> = {
  name: 'pipectl_pipe_parked_records',
  help: 'Records parked at the pipe because they do not match its schema, to be replayed or discarded by a user.',
  kind: 'gauge',
  series: ({ records }) => [[{}, records]],
}

/** Metadata that does not respond must not hold up the other metrics: the series of the pipes are missing then. */
async function parkedAtPipes(sources: IngestSources): Promise<readonly ParkedAtPipe[]> {
  let parked: readonly ParkedAtPipe[] = []
  const reading = sources.parkedAtPipes().then(
    (found) => {
      parked = found
    },
    (error) => {
      if (!(error instanceof StorageUnavailableError)) throw error
    },
  )
  await endsWithin(metadataLimitMs, reading)
  return parked
}

/** Returns a function that sets all metrics. Call it before a scrape. */
export function registerIngest(
  registry: Registry,
  sources: IngestSources,
  folded: FoldedSeries,
): () => Promise<void> {
  const { totals, observed, labelWorkers, bodyBytes, pipeName } = sources
  new Gauge({
    name: 'pipectl_ingest_in_flight_bytes',
    help: 'Memory of the bodies of all requests in progress.',
    registers: [registry],
    collect() {
      this.set(bodyBytes())
    },
  })
  const families = familiesOf(labelWorkers).map((family) =>
    registerFamily(registry, pipeNames, family, folded),
  )
  const fillHooks = registerFamily(registry, pipeNames, rejectedHooks, folded)
  const fillMismatches = registerFamily(registry, pipeNames, mismatches, folded)
  const fillParked = registerFamily(registry, pipeNames, parkedFamily, folded)
  const errors = new Counter({
    name: 'pipectl_ingest_errors_total',
    help: 'Ingest requests that got an error, by its code and status.',
    labelNames: ['error', 'status'],
    registers: [registry],
  })
  const showLatency = registerHistogram(
    registry,
    'pipectl_ingest_latency_seconds',
    'From the last byte of a request to its 202.',
    labelWorkers ? ['worker'] : [],
  )
  return async () => {
    const pipes: PipeCounts[] = []
    for (const [pipeId, byWorker] of totals.ofPipes((id) => pipeName(id) !== undefined))
      pipes.push({ pipeId, name: pipeName(pipeId) ?? '', byWorker })
    for (const fill of families) fill(pipes)
    fillHooks(pipes.filter(hasRejectedHooks))
    fillMismatches(pipes.filter(hasMismatches))
    const parked = await parkedAtPipes(sources)
    fillParked(parked.map(({ pipeId, records }) => ({ pipeId, name: pipeName(pipeId) ?? '', records })))
    errors.reset()
    for (const [error, requests] of observed.errors())
      errors.inc({ error, status: String(errorCatalogue[error].status) }, requests)
    const { latency } = observed
    if (labelWorkers)
      showLatency(
        Array.from({ length: latency.slots }, (_, worker) => [
          { worker: String(worker) },
          latency.countsOf(worker),
        ]),
      )
    else showLatency([[{}, latency.countsOfAll()]])
  }
}
