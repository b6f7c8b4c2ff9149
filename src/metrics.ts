/**
 * `/metrics` for Prometheus, on a loopback listener of its own: ingest, buffer, lanes, the process and its event loop.
 * Names and units follow the Prometheus conventions: base units, `_total` on counters. Everything is read when it is
 * scraped; the hot path only adds to plain numbers.
 */
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { BufferStatus } from './buffer/buffer.ts'
import { formatAddress } from './config.ts'
import { laneStates } from './contract/destination.ts'
import type { DeliveryMetrics, LaneMetrics } from './delivery/lane-service.ts'
import type { IngestTotals, PipeTotals } from './ingest/totals.ts'
import type { Logger } from './log.ts'
import type { ListenAddress } from './settings.ts'

export interface MetricsSources {
  ingest: IngestTotals
  /** Whether what ingest counts is shown for each of its threads (label `worker`), not summed. */
  labelWorkers: boolean
  /** What the bodies of all requests under way take. */
  bodyBytes(): number
  /** False once it is deleted: its series end. */
  isPipe(pipeId: string): boolean
  buffer(): Promise<BufferStatus>
  delivery(): Promise<DeliveryMetrics>
}

export interface MetricsServer {
  address: ListenAddress
  close(): Promise<void>
}

/** Serves GET /metrics. Rejects when the address cannot be listened on. */
export async function openMetrics(
  listen: ListenAddress,
  sources: MetricsSources,
  log: Logger,
): Promise<MetricsServer> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  registerIngest(registry, sources)
  const readBuffer = registerBuffer(registry, sources)
  const readLanes = registerLanes(registry, sources)
  const server = createServer((request, response) => {
    if (!isOwnHost(request.headers.host, listen.host)) {
      response
        .writeHead(403, { 'Content-Type': 'text/plain' })
        .end('Ask by address: this listener is for this machine alone.\n')
      return
    }
    if (request.url !== '/metrics' || request.method !== 'GET') {
      response.writeHead(404, { 'Content-Type': 'text/plain' }).end('GET /metrics\n')
      return
    }
    respond(registry, () => Promise.all([readBuffer(), readLanes()]), response).catch((error) => {
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

/**
 * A page in a browser on this machine can make its own name stand for a loopback address ("DNS rebinding"); what it then
 * asks for carries that name. A listener on another address is the operator's to protect.
 */
function isOwnHost(host: string | undefined, listenHost: string): boolean {
  const isLoopback = listenHost === 'localhost' || listenHost === '::1' || listenHost.startsWith('127.')
  if (!isLoopback || host === undefined) return true
  const name = host.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1')
  return name.toLowerCase() === 'localhost' || isIP(name) !== 0
}

async function respond(
  registry: Registry,
  read: () => Promise<unknown>,
  response: ServerResponse,
): Promise<void> {
  await read()
  const text = await registry.metrics()
  response.writeHead(200, { 'Content-Type': registry.contentType }).end(text)
}

function registerIngest(
  registry: Registry,
  { ingest, labelWorkers, isPipe, bodyBytes }: MetricsSources,
): void {
  new Gauge({
    name: 'pipectl_ingest_in_flight_bytes',
    help: 'Memory of the bodies of all requests under way.',
    registers: [registry],
    collect() {
      this.set(bodyBytes())
    },
  })
  const metric = (name: string, help: string, value: (totals: PipeTotals) => number) =>
    new Counter({
      name,
      help,
      labelNames: labelWorkers ? ['pipe_id', 'worker'] : ['pipe_id'],
      registers: [registry],
      collect() {
        this.reset()
        for (const [pipe_id, byWorker] of ingest.ofPipes(isPipe))
          for (const [worker, totals] of byWorker)
            this.inc(labelWorkers ? { pipe_id, worker: String(worker) } : { pipe_id }, value(totals))
      },
    })
  metric('pipectl_ingest_requests_total', 'Requests accepted with 202.', (totals) => totals.requests)
  metric('pipectl_ingest_records_total', 'Records in requests accepted with 202.', (totals) => totals.records)
  metric('pipectl_ingest_bytes_total', 'Bytes written to the buffer.', (totals) => totals.bytes)
  metric(
    'pipectl_ingest_rejected_requests_total',
    'Requests rejected for a known pipe.',
    (totals) => totals.rejected,
  )
}

/** The returned function asks the buffer once and fills its metrics: call it before a scrape. */
function registerBuffer(registry: Registry, sources: MetricsSources): () => Promise<void> {
  const fillers: ((status: BufferStatus) => void)[] = []
  const metric = (name: string, help: string, value: (status: BufferStatus) => number) => {
    const gauge = new Gauge({ name, help, registers: [registry] })
    fillers.push((status) => gauge.set(value(status)))
  }
  metric('pipectl_buffer_size_bytes', 'Size of the buffer on disk.', (status) => status.bytes)
  metric('pipectl_buffer_segments', 'Files of the buffer.', (status) => status.segments)
  metric('pipectl_buffer_free_disk_bytes', 'Free space of its disk.', (status) => status.freeBytes)
  metric('pipectl_buffer_rejecting', '1 while appends are rejected for lack of space.', (status) =>
    status.unavailableReason === null ? 0 : 1,
  )
  metric(
    'pipectl_buffer_oldest_message_timestamp_seconds',
    'When the oldest kept message was received; 0: none.',
    (status) => (status.oldestMs === null ? 0 : status.oldestMs / 1000),
  )
  metric(
    'pipectl_buffer_missing_acknowledged_messages',
    'Acknowledged messages of earlier runs that the disk no longer held at start.',
    (status) => status.missingAcknowledged,
  )
  metric(
    'pipectl_buffer_damaged_segments',
    'Files of the buffer that cannot be read and wait until what can be is saved.',
    (status) => status.damagedSegments,
  )
  metric(
    'pipectl_buffer_missing_segments',
    'Files of the buffer found gone, without having been dropped, since the start.',
    (status) => status.missingSegments,
  )
  const lost = new Counter({
    name: 'pipectl_buffer_lost_messages_total',
    help: 'Messages in damaged and missing files of the buffer that could not be saved.',
    registers: [registry],
  })
  fillers.push((status) => {
    lost.reset()
    lost.inc(status.lostMessages)
  })
  return async () => {
    const status = await sources.buffer()
    for (const fill of fillers) fill(status)
  }
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
  const restarts = new Counter({
    name: 'pipectl_delivery_worker_restarts_total',
    help: 'Delivery workers that died or hung and were started again.',
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
  gauge('pipectl_lane_stuck', '1 while an attempt to deliver the next message has failed.', (lane) =>
    lane.blocking_msg_id === null ? 0 : 1,
  )
  counter('pipectl_lane_delivered_records_total', 'Records delivered.', (lane) => lane.delivered_records)
  counter(
    'pipectl_lane_skipped_messages_total',
    'Messages passed over by skip.',
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
    help: '1 for the current state of the lane.',
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
    restarts.reset()
    restarts.inc(metrics.workerRestarts)
    for (const fill of fillers) fill()
  }
}
