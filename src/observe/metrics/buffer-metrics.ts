/** Metrics of the buffer: its size, its losses, the duration of commits, and its limits for alerting rules. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { BufferStatus, WriterHistograms } from '../../log/buffer.ts'
import { registerHistogram } from './read-histogram.ts'

export interface BufferSources {
  buffer: { status(): Promise<BufferStatus>; histograms(): WriterHistograms }
  /** The limits from the settings. */
  limits: { bufferBytes: number; minFreeBytes: number; retentionSeconds: number }
}

const gauges: [name: string, help: string, value: (status: BufferStatus) => number][] = [
  ['pipectl_buffer_size_bytes', 'Size of the buffer on disk.', (status) => status.bytes],
  [
    'pipectl_buffer_idempotency_bytes',
    'Idempotency keys on disk, which are not part of pipectl_buffer_size_bytes.',
    (status) => status.idempotencyBytes,
  ],
  ['pipectl_buffer_segments', 'Files of the buffer.', (status) => status.segments],
  ['pipectl_buffer_free_disk_bytes', 'Free space of its disk.', (status) => status.freeBytes],
  [
    'pipectl_buffer_rejecting',
    '1 while appends are rejected for lack of space.',
    (status) => (status.unavailableReason === null ? 0 : 1),
  ],
  [
    'pipectl_buffer_oldest_message_timestamp_seconds',
    'When the oldest kept message was received; 0: none.',
    (status) => (status.oldestMs === null ? 0 : status.oldestMs / 1000),
  ],
  [
    'pipectl_buffer_missing_acknowledged_messages',
    'Acknowledged messages of earlier runs that were missing on the disk at the start.',
    (status) => status.missingAcknowledged,
  ],
  [
    'pipectl_buffer_damaged_segments',
    'Damaged files of the buffer that wait to be salvaged.',
    (status) => status.damagedSegments,
  ],
  [
    'pipectl_buffer_missing_segments',
    'Files of the buffer that are missing without having been dropped, since the start.',
    (status) => status.missingSegments,
  ],
]

/** Returns a function that queries the buffer once and sets the metrics. Call it before a scrape. */
export function registerBuffer(registry: Registry, { buffer, limits }: BufferSources): () => Promise<void> {
  const fillers = gauges.map(([name, help, value]) => {
    const gauge = new Gauge({ name, help, registers: [registry] })
    return (status: BufferStatus) => gauge.set(value(status))
  })
  const limit = (name: string, help: string, value: number) =>
    new Gauge({ name, help, registers: [registry] }).set(value)
  limit('pipectl_buffer_max_bytes', 'Setting buffer.max_bytes.', limits.bufferBytes)
  limit('pipectl_buffer_min_free_bytes', 'Setting buffer.min_free_bytes.', limits.minFreeBytes)
  limit(
    'pipectl_buffer_retention_seconds',
    'Setting buffer.undelivered_hours: undelivered messages older than this are dropped.',
    limits.retentionSeconds,
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
  const showSync = registerHistogram(
    registry,
    'pipectl_buffer_fsync_seconds',
    'Making a frame durable: COMMIT, which writes its pages and syncs them.',
  )
  const showBytes = registerHistogram(registry, 'pipectl_buffer_frame_bytes', 'Bytes of a committed frame.')
  const showMessages = registerHistogram(
    registry,
    'pipectl_buffer_frame_messages',
    'Messages of a committed frame: requests that shared one sync.',
  )
  return async () => {
    const status = await buffer.status()
    for (const fill of fillers) fill(status)
    const { syncSeconds, frameBytes, frameMessages } = buffer.histograms()
    showSync([[{}, syncSeconds]])
    showBytes([[{}, frameBytes]])
    showMessages([[{}, frameMessages]])
  }
}
