/** Batches made by hand, as a lane would give them to a driver. */
import { v5, v7 } from 'uuid'
import { type ColumnMapping, resolveConfig } from '../../src/contract/destination.ts'
import {
  type Batch,
  DeliveryError,
  type DestinationSpec,
  type DriverSettings,
  type PinServerKey,
} from '../../src/destinations/driver.ts'

export const destinationId = '0b5b6bb2-6a0e-4f44-9d5c-2b8f1f1f0a01'

/** One inner list a message; a string is a record's own text, anything else is serialized. */
export function makeBatch(messages: readonly (readonly unknown[])[], firstSeq = 1): Batch {
  const stored = messages.map((records, index) => ({
    seq: firstSeq + index,
    pipeId: 'a3a8f9c6-1111-4c44-8d88-000000000001',
    msgId: v7(),
    receivedMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
    recordCount: records.length,
    body: Buffer.from(
      records.map((record) => (typeof record === 'string' ? record : JSON.stringify(record))).join('\n'),
    ),
  }))
  const lastSeq = firstSeq + messages.length - 1
  return {
    identity: v5(`${firstSeq}-${lastSeq}`, destinationId),
    firstSeq,
    lastSeq,
    messages: stored,
    recordCount: stored.reduce((sum, message) => sum + message.recordCount, 0),
    byteCount: stored.reduce((sum, message) => sum + message.body.length, 0),
    recordOffset: 0,
  }
}

/** The part of a batch that a lane would try when it narrows down: messages `from` to `to` (exclusive), by index. */
export function sliceBatch(batch: Batch, from: number, to: number): Batch {
  const messages = batch.messages.slice(from, to)
  return {
    ...batch,
    messages,
    firstSeq: messages[0]!.seq,
    lastSeq: messages.at(-1)!.seq,
    recordCount: messages.reduce((sum, message) => sum + message.recordCount, 0),
    byteCount: messages.reduce((sum, message) => sum + message.body.length, 0),
  }
}

export function makeSpec<T extends DestinationSpec['type']>(
  type: T,
  config: Record<string, unknown>,
  columns: readonly (Partial<ColumnMapping> & { column_name: string })[] = [],
): Extract<DestinationSpec, { type: T }> {
  const spec: DestinationSpec = {
    destinationId,
    pipeId: 'a3a8f9c6-1111-4c44-8d88-000000000001',
    pipeName: 'orders',
    ...resolveConfig(type, config),
    columns: columns.map((column) => ({
      column_type: 'string',
      source_field: null,
      semantic_role: null,
      nullable: true,
      ...column,
    })),
    timestampField: 'ingest_ts',
  }
  return spec as Extract<DestinationSpec, { type: T }>
}

export const openSettings: DriverSettings = {
  databaseTls: false,
  egress: { allow: [], deny: [], private: 'allow' },
}

/** Every connection over TLS is the first one. */
export const anyKey: PinServerKey = async (sha256) => sha256

/** For attempts that are not meant to be ended from outside. */
export const never = new AbortController().signal

/** The DeliveryError with which a delivery rejected; any other error is thrown on. */
export async function failureOf(delivering: Promise<void>): Promise<DeliveryError> {
  const error: unknown = await delivering.then(
    () => new Error('it should have failed'),
    (error: unknown) => error,
  )
  if (error instanceof DeliveryError) return error
  throw error
}
