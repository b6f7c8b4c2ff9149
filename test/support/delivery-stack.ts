/** Buffer, metadata and the delivery thread as the daemon composes them, without its HTTP side: all real. */
import { fullRights } from '../../src/contract/api-key.ts'
import '../unit/buffer/typescript-workers.ts'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { v7 } from 'uuid'
import { pipeDefaults } from '../../src/contract/pipe.ts'
import { type DeliveryHandle, openDelivery } from '../../src/delivery/delivery-proxy.ts'
import type { OpenBuffer } from '../../src/log/buffer.ts'
import type { SegmentsSpec } from '../../src/log/segments/protocol.ts'
import type { NewDestination } from '../../src/metadata/destinations.ts'
import type { Metadata } from '../../src/metadata/store.ts'
import { openBuffer, openBufferReader } from '../../src/stores/open-log.ts'
import { openMetadata } from '../../src/stores/open-metadata.ts'
import { newEndpoint } from './new-endpoint.ts'

export interface DeliveryStack {
  buffer: OpenBuffer
  metadata: Metadata
  delivery: DeliveryHandle
  workspaceId: string
  pipeId: string
  fatal: Error[]
  addLane(change?: Partial<NewDestination>): Promise<string>
  /** One message of so many records, numbered from `first`; resolves when it is durable. */
  append(first: number, records?: number): Promise<number>
  /** The order of the daemon's own shutdown. */
  close(graceMs?: number): Promise<void>
}

const sealingKey = Buffer.alloc(32, 7)
export const quiet = { level: 'silent', format: 'json' } as const

/** On the same `root` again: the same workspace, pipe and lanes. */
export async function openDeliveryStack(
  root: string,
  {
    maxInFlightBytes = 64 * 1024 * 1024,
    ...buffering
  }: Partial<SegmentsSpec & { maxInFlightBytes: number }> = {},
): Promise<DeliveryStack> {
  mkdirSync(root, { recursive: true })
  const fatal: Error[] = []
  const metadataSpec = { kind: 'sqlite', file: path.join(root, 'metadata.db') } as const
  const onFatal = (error: Error) => void fatal.push(error)
  const metadata = await openMetadata(metadataSpec, sealingKey)
  const { workspaceId, pipeId } = await foundPipe(metadata)
  const spec: SegmentsSpec = {
    kind: 'segments',
    dir: path.join(root, 'buffer'),
    quarantineDir: path.join(root, 'quarantine'),
    channel: `buffer-${v7()}`,
    maxBytes: 1e9,
    minFreeBytes: 0,
    segmentMaxBytes: 256 * 1024 * 1024,
    segmentMaxSeconds: 3600,
    undeliveredHours: 168,
    deliveredHours: 24,
    deliveredMaxBytes: 1e9,
    ...buffering,
  }
  const buffer = await openBuffer(spec, { log: quiet, onFatal })
  const delivery = await openDelivery({
    buffer: spec,
    openReader: (log) => openBufferReader(spec, log),
    metadata: metadataSpec,
    stored: metadata,
    sealingKey,
    driverSettings: { databaseTls: false, egress: { allow: [], deny: [], private: 'allow' } },
    maxInFlightBytes,
    maxParkedBytes: 64 * 1024 * 1024,
    log: quiet,
    onFatal,
  })
  return {
    buffer,
    metadata,
    delivery,
    workspaceId,
    pipeId,
    fatal,
    async addLane(change = {}) {
      const { destination_id } = await metadata.destinations.create(
        { workspaceId, pipeId },
        { ...newEndpoint, ...change },
      )
      await delivery.refresh(pipeId)
      return destination_id
    },
    async append(first, records = 1) {
      const texts = Array.from({ length: records }, (_, index) => `{"n":${first + index}}`)
      const { seq } = await buffer.appender.append({
        pipeId,
        msgId: v7(),
        receivedMs: Date.now(),
        recordCount: records,
        body: Buffer.from(texts.join('\n')),
      })
      return seq
    },
    async close(graceMs) {
      await delivery.endPulls()
      await buffer.appender.drain()
      await delivery.close(graceMs)
      await metadata.close()
      await buffer.close()
    },
  }
}

async function foundPipe(metadata: Metadata): Promise<{ workspaceId: string; pipeId: string }> {
  const [known] = await metadata.workspaces.list()
  const workspaceId =
    known?.workspaceId ??
    (await metadata.workspaces.create('w', { name: 'k', prefix: 'ppl1_k', hash: '00', rights: fullRights }))
      .workspaceId
  const [pipe] = await metadata.pipes.list(workspaceId)
  if (pipe !== undefined) return { workspaceId, pipeId: pipe.pipe_id }
  const created = await metadata.pipes.create(workspaceId, {
    ...pipeDefaults,
    pipe_name: 'p',
    pipe_status: 'active',
  })
  return { workspaceId, pipeId: created.pipe_id }
}
