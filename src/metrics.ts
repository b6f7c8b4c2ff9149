/**
 * `/metrics` for Prometheus, on a loopback listener of its own: ingest, buffer, lanes, the process and its event loop.
 * Names and units follow the Prometheus conventions: base units, `_total` on counters. Everything is read when it is
 * scraped; the hot path only adds to plain numbers.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { BufferStatus } from './buffer/segments/open-buffer.ts'
import { formatAddress } from './config.ts'
import { laneStates } from './contract/destination.ts'
import type { DeliveryMetrics, LaneMetrics } from './delivery/delivery-metrics.ts'
import type { UsageCounter } from './ingest/usage.ts'
import type { Logger } from './log.ts'
import type { ListenAddress } from './settings.ts'

export interface MetricsSources {
  buffer(): BufferStatus
  delivery(): Promise<DeliveryMetrics>
  missingAcknowledged: number
}

export interface MetricsServer {
  address: ListenAddress
  close(): Promise<void>
}

interface IngestTotals {
  requests: number
  records: number
  bytes: number
  rejected: number
}

const ingestTotals = new Map<string, IngestTotals>()

/** The same counter, whose counts also go into the process's totals. */
export function observeUsage(counter: UsageCounter): UsageCounter {
  const totalsOf = (pipeId: string) => {
    let totals = ingestTotals.get(pipeId)
    if (totals === undefined) {
      totals = { requests: 0, records: 0, bytes: 0, rejected: 0 }
      ingestTotals.set(pipeId, totals)
    }
    return totals
  }
  return {
    ...counter,
    accepted: (pipeId, records, bytes, atMs) => {
      const totals = totalsOf(pipeId)
      totals.requests++
      totals.records += records
      totals.bytes += bytes
      counter.accepted(pipeId, records, bytes, atMs)
    },
    rejected: (pipeId, atMs) => {
      totalsOf(pipeId).rejected++
      counter.rejected(pipeId, atMs)
    },
  }
}

/** Serves GET /metrics. Rejects when the address cannot be listened on. */
export async function openMetrics(
  listen: ListenAddress,
  sources: MetricsSources,
  log: Logger,
): Promise<MetricsServer> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  registerIngest(registry)
  registerBuffer(registry, sources)
  const readLanes = registerLanes(registry, sources)
  const server = createServer((request, response) => {
    if (request.url !== '/metrics' || request.method !== 'GET') {
      response.writeHead(404, { 'Content-Type': 'text/plain' }).end('GET /metrics\n')
      return
    }
    answer(registry, readLanes, response).catch((error) => {
      log.error({ err: error }, 'metrics.failed')
      if (!response.headersSent) response.writeHead(500)
      response.end()
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(listen.port, listen.host, resolve)
  })
  const { port } = server.address() as AddressInfo
  log.info({ url: `http://${formatAddress({ host: listen.host, port })}/metrics` }, 'metrics.listening')
  return {
    address: { host: listen.host, port },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function answer(
  registry: Registry,
  readLanes: () => Promise<void>,
  response: ServerResponse,
): Promise<void> {
  await readLanes()
  const text = await registry.metrics()
  response.writeHead(200, { 'Content-Type': registry.contentType }).end(text)
}

function registerIngest(registry: Registry): void {
  const metric = (name: string, help: string, value: (totals: IngestTotals) => number) =>
    new Counter({
      name,
      help,
      labelNames: ['pipe_id'],
      registers: [registry],
      collect() {
        this.reset()
        for (const [pipe_id, totals] of ingestTotals) this.inc({ pipe_id }, value(totals))
      },
    })
  metric('pipectl_ingest_requests_total', 'Requests answered 202.', (totals) => totals.requests)
  metric('pipectl_ingest_records_total', 'Records in requests answered 202.', (totals) => totals.records)
  metric('pipectl_ingest_bytes_total', 'Bytes written to the buffer.', (totals) => totals.bytes)
  metric(
    'pipectl_ingest_rejected_requests_total',
    'Requests refused for a known pipe.',
    (totals) => totals.rejected,
  )
}

function registerBuffer(registry: Registry, sources: MetricsSources): void {
  const metric = (name: string, help: string, value: (status: BufferStatus) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value(sources.buffer()))
      },
    })
  metric('pipectl_buffer_size_bytes', 'Size of the buffer on disk.', (status) => status.bytes)
  metric('pipectl_buffer_segments', 'Files of the buffer.', (status) => status.segments)
  metric('pipectl_buffer_free_disk_bytes', 'Free space of its disk.', (status) => status.freeBytes)
  metric('pipectl_buffer_refusing', '1 while appends are refused for want of space.', (status) =>
    status.refusing === null ? 0 : 1,
  )
  metric(
    'pipectl_buffer_oldest_message_timestamp_seconds',
    'When the oldest kept message came; 0: none.',
    (status) => (status.oldestMs === null ? 0 : status.oldestMs / 1000),
  )
  metric(
    'pipectl_buffer_missing_acknowledged_messages',
    'Acknowledged messages of earlier runs that the disk no longer held at start.',
    () => sources.missingAcknowledged,
  )
}

const laneLabels = ['pipe_id', 'destination_id', 'type']

/** The returned function asks the delivery thread once and fills every metric of the lanes: call it before a scrape. */
function registerLanes(registry: Registry, sources: MetricsSources): () => Promise<void> {
  let lanes: LaneMetrics[] = []
  const labels = ({ pipeId, destinationId, type }: LaneMetrics) => ({
    pipe_id: pipeId,
    destination_id: destinationId,
    type,
  })
  const inFlight = new Gauge({
    name: 'pipectl_delivery_in_flight_bytes',
    help: 'Memory of all batches under way.',
    registers: [registry],
  })
  const fillers: (() => void)[] = []
  const gauge = (name: string, help: string, value: (lane: LaneMetrics['lane']) => number) => {
    const metric = new Gauge({ name, help, labelNames: laneLabels, registers: [registry] })
    fillers.push(() => {
      metric.reset()
      for (const one of lanes) metric.set(labels(one), value(one.lane))
    })
  }
  const counter = (name: string, help: string, value: (lane: LaneMetrics['lane']) => number) => {
    const metric = new Counter({ name, help, labelNames: laneLabels, registers: [registry] })
    fillers.push(() => {
      metric.reset()
      for (const one of lanes) metric.inc(labels(one), value(one.lane))
    })
  }
  gauge('pipectl_lane_pending_messages', 'Messages after the cursor.', (lane) => lane.pending_messages)
  gauge('pipectl_lane_pending_bytes', 'Bytes after the cursor.', (lane) => lane.pending_bytes)
  gauge(
    'pipectl_lane_oldest_pending_age_seconds',
    'Age of the oldest undelivered message.',
    (lane) => lane.oldest_pending_age_seconds,
  )
  counter('pipectl_lane_delivered_records_total', 'Records delivered.', (lane) => lane.delivered_records)
  counter(
    'pipectl_lane_skipped_messages_total',
    'Messages given up by skip.',
    (lane) => lane.skipped_messages,
  )
  counter(
    'pipectl_lane_dropped_messages_total',
    'Messages lost to retention or damage.',
    (lane) => lane.dropped_messages,
  )
  const attempts = new Counter({
    name: 'pipectl_lane_attempts_total',
    help: 'Delivery attempts of this process by outcome.',
    labelNames: [...laneLabels, 'outcome'],
    registers: [registry],
  })
  const state = new Gauge({
    name: 'pipectl_lane_state',
    help: '1 for the state the lane is in.',
    labelNames: [...laneLabels, 'state'],
    registers: [registry],
  })
  fillers.push(() => {
    attempts.reset()
    state.reset()
    for (const one of lanes) {
      for (const [outcome, count] of Object.entries(one.attempts))
        attempts.inc({ ...labels(one), outcome }, count)
      for (const name of laneStates)
        state.set({ ...labels(one), state: name }, one.lane.lane_state === name ? 1 : 0)
    }
  })
  return async () => {
    const metrics = await sources.delivery()
    lanes = metrics.lanes
    inFlight.set(metrics.inFlightBytes)
    for (const fill of fillers) fill()
  }
}
