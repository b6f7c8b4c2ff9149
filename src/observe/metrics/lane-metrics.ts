/** Metrics of delivery: state, backlog and counters of each lane; attempts and batches by destination type. */
import { Counter, Gauge, type Registry } from 'prom-client'
import { laneStates } from '../../contract/destination.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import { isFailing } from '../../contract/state-words.ts'
import type { DeliveryMetrics, LaneMetrics } from '../../delivery/delivery.ts'
import { type Family, type FoldedSeries, registerFamily, registerHistogramFamily } from './families.ts'
import { registerHistogram } from './read-histogram.ts'

export interface DeliverySources {
  delivery(): Promise<DeliveryMetrics>
}

const laneNames = {
  labelNames: ['pipe_id', 'pipe', 'destination_id', 'destination', 'type'],
  key: ({ destinationId }: LaneMetrics) => destinationId,
  labels: ({ pipeId, pipeName, destinationId, name, type }: LaneMetrics) => ({
    pipe_id: pipeId,
    pipe: pipeName,
    destination_id: destinationId,
    destination: name ?? wordsOf(type).kind,
    type,
  }),
}

type Lane = LaneMetrics['lane']

function gauge(
  name: string,
  help: string,
  value: (lane: Lane) => number,
  fold: 'sum' | 'max' = 'sum',
): Family<LaneMetrics> {
  return { name, help, kind: 'gauge', fold, series: ({ lane }) => [[{}, value(lane)]] }
}

function counter(name: string, help: string, value: (lane: Lane) => number): Family<LaneMetrics> {
  return { ...gauge(name, help, value), kind: 'counter' }
}

const isTrue = (value: boolean) => (value ? 1 : 0)

const families: Family<LaneMetrics>[] = [
  gauge('pipectl_lane_pending_messages', 'Messages after the cursor.', (lane) => lane.pending_messages),
  gauge('pipectl_lane_pending_bytes', 'Bytes after the cursor.', (lane) => lane.pending_bytes),
  gauge(
    'pipectl_lane_oldest_pending_age_seconds',
    'Age of the oldest undelivered message.',
    (lane) => lane.oldest_pending_age_seconds,
    'max',
  ),
  gauge(
    'pipectl_lane_stuck',
    '1 while a message blocks the lane: an attempt at it failed, and the lane is retrying or stuck.',
    (lane) => isTrue(lane.blocking_msg_id !== null),
  ),
  gauge(
    'pipectl_lane_failing',
    '1 from a minute after the first failure, once a retry has failed too or the message was rejected permanently.',
    (lane) => isTrue(isFailing(lane, Date.now())),
  ),
  counter('pipectl_lane_delivered_records_total', 'Records delivered.', (lane) => lane.delivered_records),
  counter(
    'pipectl_lane_filtered_records_total',
    'Records that the transform of the destination filtered out.',
    (lane) => lane.filtered_records ?? 0,
  ),
  counter(
    'pipectl_lane_skipped_messages_total',
    'Messages that were skipped.',
    (lane) => lane.skipped_messages,
  ),
  counter(
    'pipectl_lane_dropped_messages_total',
    'Messages lost to retention or damage.',
    (lane) => lane.dropped_messages,
  ),
  gauge(
    'pipectl_parked_records',
    'Parked records, to be replayed or discarded by a user.',
    (lane) => lane.parked_records ?? 0,
  ),
  counter(
    'pipectl_parked_dropped_records_total',
    'Parked records removed by age, neither replayed nor discarded.',
    (lane) => lane.parked_dropped_records ?? 0,
  ),
  gauge(
    'pipectl_lane_unmapped_keys',
    'Keys that occur repeatedly in the records of a database destination and that no column takes.',
    (lane) => lane.unmapped_keys ?? 0,
  ),
  {
    name: 'pipectl_lane_unmapped_records_total',
    help: 'Sampled records of a database destination that have a key which no column takes.',
    kind: 'counter',
    series: ({ unmappedRecords }) => [[{}, unmappedRecords]],
  },
  {
    name: 'pipectl_lane_replaying',
    help: '1 while a replay of a range of messages waits or runs.',
    kind: 'gauge',
    series: ({ isReplaying }) => [[{}, isTrue(isReplaying)]],
  },
  {
    name: 'pipectl_lane_attempts_total',
    help: 'Delivery attempts of this process by outcome.',
    kind: 'counter',
    labelNames: ['outcome'],
    series: ({ attempts }) => Object.entries(attempts).map(([outcome, count]) => [{ outcome }, count]),
  },
  {
    name: 'pipectl_lane_state',
    help: '1 for the current state of the lane: idle, flowing (delivering), retrying, stalled (retrying for longer than destination_max_retry_seconds) or blocked.',
    kind: 'gauge',
    labelNames: ['state'],
    series: ({ lane }) => laneStates.map((state) => [{ state }, isTrue(lane.lane_state === state)]),
  },
]

/**
 * Returns a function that queries the delivery thread once and sets the metrics of all lanes. Call it before a
 * scrape.
 */
export function registerLanes(
  registry: Registry,
  sources: DeliverySources,
  folded: FoldedSeries,
): () => Promise<void> {
  const inFlight = new Gauge({
    name: 'pipectl_delivery_in_flight_bytes',
    help: 'Memory of all batches in progress.',
    registers: [registry],
  })
  const restarts = new Counter({
    name: 'pipectl_delivery_worker_restarts_total',
    help: 'Delivery workers that crashed or hung and were restarted.',
    registers: [registry],
  })
  const fillers = families.map((family) => registerFamily(registry, laneNames, family, folded))
  const showLatency = registerHistogramFamily(
    registry,
    laneNames,
    {
      name: 'pipectl_delivery_latency_seconds',
      help: 'Time from the acceptance of a record until its destination had it, by record.',
      counts: ({ latency }) => latency,
    },
    folded,
  )
  const showSeconds = registerHistogram(
    registry,
    'pipectl_delivery_attempt_seconds',
    'Duration of delivery attempts, by outcome.',
    ['type', 'outcome'],
  )
  const showRecords = registerHistogram(
    registry,
    'pipectl_delivery_batch_records',
    'Records of the batches that were attempted.',
    ['type'],
  )
  const showBytes = registerHistogram(
    registry,
    'pipectl_delivery_batch_bytes',
    'Bytes of the batches that were attempted.',
    ['type'],
  )
  return async () => {
    const { lanes, inFlightBytes, workerRestarts, attempts } = await sources.delivery()
    inFlight.set(inFlightBytes)
    restarts.reset()
    restarts.inc(workerRestarts)
    for (const fill of fillers) fill(lanes)
    showLatency(lanes)
    showSeconds(
      attempts.flatMap(({ type, seconds }) => [
        [{ type, outcome: 'delivered' }, seconds.delivered] as const,
        [{ type, outcome: 'failed' }, seconds.failed] as const,
      ]),
    )
    showRecords(attempts.map(({ type, batchRecords }) => [{ type }, batchRecords] as const))
    showBytes(attempts.map(({ type, batchBytes }) => [{ type }, batchBytes] as const))
  }
}
