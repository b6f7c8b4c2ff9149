/** The form state of a destination, and the bodies of a create and an update. Pure. */
import type { ColumnMapping, Destination } from '../../../../contract/destination.ts'
import type { DestinationType } from '../../../../contract/destination-words.ts'
import { fieldsOf, wordsOf } from '../../../../contract/destination-words.ts'
import type { DestinationBody, DestinationPatch, GivenColumn } from '../../../client/client.ts'
import { changedConfig, newConfig, numberOr, type Texts, textsOf } from './fields.ts'
import { givenTransformOf, noTransform, type TransformDraft, transformDraftOf } from './transform-draft.ts'

export interface ColumnDraft {
  /** Identifies the row only within the form. */
  id: number
  name: string
  type: ColumnMapping['column_type']
  source: string
  role: '' | NonNullable<ColumnMapping['semantic_role']>
  isRequired: boolean
}

export interface DestinationDraft {
  type: DestinationType
  name: string
  config: Texts
  columns: readonly ColumnDraft[]
  transform: TransformDraft
  maxRetrySeconds: string
  /** All empty: the destination has no batch limits of its own. */
  flush: { records: string; bytes: string; seconds: string }
  rate: string
  concurrency: string
  onPermanentError: Destination['on_permanent_error']
  startFrom: 'now' | 'earliest'
}

const noFlush = { records: '', bytes: '', seconds: '' }

export function emptyDraft(
  type: DestinationType,
  startFrom: DestinationDraft['startFrom'] = 'now',
): DestinationDraft {
  return {
    type,
    name: '',
    config: textsOf(type, {}),
    columns: [],
    transform: noTransform,
    maxRetrySeconds: '',
    flush: noFlush,
    rate: '',
    concurrency: '',
    onPermanentError: 'block',
    startFrom,
  }
}

export function draftOf(destination: Destination): DestinationDraft {
  const { flush, rate, concurrency } = destination
  return {
    type: destination.destination_type,
    name: destination.destination_name,
    config: textsOf(destination.destination_type, destination.destination_config),
    columns: (destination.columns ?? []).map((column, id) => ({
      id,
      name: column.column_name,
      type: column.column_type,
      source: column.source_field ?? '',
      role: column.semantic_role ?? '',
      isRequired: !column.nullable,
    })),
    transform: transformDraftOf(destination.transform),
    maxRetrySeconds: String(destination.destination_max_retry_seconds),
    flush:
      flush === null
        ? noFlush
        : {
            records: String(flush.max_records),
            bytes: String(flush.max_bytes),
            seconds: String(flush.max_seconds),
          },
    rate: rate === null ? '' : String(rate.requests_per_second),
    concurrency: concurrency === undefined ? '' : String(concurrency),
    onPermanentError: destination.on_permanent_error,
    startFrom: 'now',
  }
}

/** For an object store, true only with Parquet objects, or if there are columns that must be removed. */
export function hasColumns({ type, config, columns }: DestinationDraft): boolean {
  const words = wordsOf(type)
  return words.isDatabase || (words.hasColumns && (config.format === 'parquet' || columns.length > 0))
}

/** Typed text is sent unchanged: the API reports errors at the field. */
export function createBody(draft: DestinationDraft): DestinationBody {
  const { columns, concurrency, on_permanent_error, ...rest } = settingsOf(draft)
  const body = {
    destination_type: draft.type,
    destination_config: newConfig(fieldsOf(draft.type), draft.config),
    ...rest,
    ...(draft.columns.length > 0 ? { columns } : {}),
    ...(draft.concurrency === '' ? {} : { concurrency }),
    ...(draft.onPermanentError === 'block' ? {} : { on_permanent_error }),
    ...(draft.startFrom === 'earliest' ? { start_from: 'earliest' } : {}),
  }
  const given = Object.entries(body).filter(([, value]) => value !== null && value !== undefined)
  return Object.fromEntries(given) as unknown as DestinationBody
}

/** Only the changed fields. */
export function updateBody(before: DestinationDraft, draft: DestinationDraft): DestinationPatch {
  const [earlier, now] = [settingsOf(before), settingsOf(draft)]
  const config = changedConfig(fieldsOf(draft.type), before.config, draft.config)
  const changed = Object.entries(now).filter(
    ([key, value]) => JSON.stringify(value) !== JSON.stringify(earlier[key]),
  )
  return {
    ...(Object.keys(config).length > 0 ? { destination_config: config } : {}),
    ...Object.fromEntries(changed),
  }
}

function settingsOf(draft: DestinationDraft): Record<string, unknown> {
  const { records, bytes, seconds } = draft.flush
  const hasFlush = `${records}${bytes}${seconds}`.trim() !== ''
  const { hasConcurrency, ...words } = wordsOf(draft.type)
  return {
    destination_name: draft.name.trim() === '' ? null : draft.name.trim(),
    destination_max_retry_seconds:
      draft.maxRetrySeconds.trim() === '' ? undefined : numberOr(draft.maxRetrySeconds),
    flush: hasFlush
      ? { max_records: numberOr(records), max_bytes: numberOr(bytes), max_seconds: numberOr(seconds) }
      : null,
    rate: draft.rate.trim() === '' ? null : { requests_per_second: numberOr(draft.rate) },
    ...(words.isPulled
      ? {}
      : { on_permanent_error: draft.onPermanentError, transform: givenTransformOf(draft.transform) }),
    ...(words.hasColumns ? { columns: draft.columns.map(mappingOf) } : {}),
    ...(hasConcurrency
      ? { concurrency: draft.concurrency.trim() === '' ? null : numberOr(draft.concurrency) }
      : {}),
  }
}

function mappingOf({ name, type, source, role, isRequired }: ColumnDraft): GivenColumn {
  return {
    column_name: name.trim(),
    column_type: type,
    ...(source.trim() === '' ? {} : { source_field: source.trim() }),
    ...(role === '' ? {} : { semantic_role: role }),
    ...(isRequired ? { nullable: false } : {}),
  }
}
