/** Checks of POST destinations/test that all dialects share. `sample=true` inserts one record and rolls it back. */
import { randomUUID } from 'node:crypto'
import { columnRules } from '../../contract/column-rules.ts'
import type { ColumnMapping } from '../../contract/destination.ts'
import type { StoredMessage } from '../../log/buffer.ts'
import { records } from '../../log/record-text.ts'
import type { Batch, DeliveryError, DestinationCheck, Sample, TableSpec } from '../driver.ts'
import type { ExistingColumn } from './infer/plan.ts'

/** `textFor` makes up text that fits a column, for a pipe without messages. */
export function sampleBatch(
  { recent }: Sample,
  { columns, pipeId, timestampField }: TableSpec,
  textFor: (column: string) => string | null,
): Batch {
  const record = recent === null ? undefined : records(recent.body).next().value
  const madeUpRecord = () => {
    const members = columnRules(columns, timestampField).flatMap(({ name, type, source }) =>
      source.kind === 'key' ? [[source.key, type === 'null' ? null : (madeUp[type] ?? textFor(name))]] : [],
    )
    return Buffer.from(JSON.stringify(Object.fromEntries(members)))
  }
  const body = record ?? madeUpRecord()
  const message: StoredMessage = {
    seq: 0,
    pipeId,
    msgId: recent?.msgId ?? randomUUID(),
    receivedMs: recent?.receivedMs ?? Date.now(),
    recordCount: 1,
    body,
  }
  return {
    identity: message.msgId,
    firstSeq: 0,
    lastSeq: 0,
    messages: [message],
    recordCount: 1,
    byteCount: body.length,
    recordOffset: 0,
  }
}

const madeUp: Partial<Record<ColumnMapping['column_type'], unknown>> = {
  number: 1,
  boolean: true,
  object: {},
  array: [],
}

export function sampleCheck(
  { recent, isTransformed = false }: Sample,
  error: DeliveryError | null,
): DestinationCheck {
  const newest = isTransformed ? 'The newest record that the transform keeps' : "The pipe's newest record"
  const what = recent === null ? 'A generated record' : newest
  return {
    name: 'sample',
    ok: error === null,
    message:
      error === null
        ? `${what} was inserted and rolled back.`
        : `${what} could not be inserted: ${error.message}`,
  }
}

export function tableCheck(
  name: string,
  columns: readonly (ExistingColumn & { type: string })[],
): DestinationCheck {
  return {
    name: 'table',
    ok: true,
    message: `${name} has ${columns.length} columns.`,
    tableColumns: columns
      .filter((column) => !column.isGenerated)
      .map((column) => ({
        column_name: column.name,
        data_type: column.type,
        is_nullable: !column.isNotNull,
        has_default: column.hasDefault,
      })),
  }
}
