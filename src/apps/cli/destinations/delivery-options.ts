/** `--name`, `--flush-…`, `--rate`, `--concurrency`, …: the name of a destination and its own delivery settings. */
import type { DestinationFlush } from '../../../contract/delivery-settings.ts'
import { type DestinationType, destinationTypes, wordsOf } from '../../../contract/destination-words.ts'
import { bytes, count } from '../../../platform/quantities.ts'
import type { DestinationPatch } from '../../client/client.ts'
import { deliveryFlags, fieldsFromFlags } from '../../client/flag-fields.ts'

/** Default batch limits by type, for `--help`. */
export function flushHelp(): string {
  const lines = destinationTypes
    .filter((type) => !wordsOf(type).isPulled)
    .map((type) => `  ${wordsOf(type).kind.padEnd(14)} ${flushWords(type)}`)
  return `A batch is sent when it reaches one of its limits. Without --flush-… the limits of the pipe apply, otherwise those of the type:\n${lines.join('\n')}`
}

/** The default batch limits of a type. */
export function flushWords(type: DestinationType): string {
  const { maxRecords, maxBytes, maxSeconds } = wordsOf(type).defaultFlush
  const seconds = maxSeconds === 0 ? 'sent immediately' : `${maxSeconds} s`
  return `${count(maxRecords)} records, ${bytes(maxBytes)}, ${seconds}`
}

/** Only the given settings. `before` has the limits that are kept if they are not given. Throws Failure (usage). */
export function deliverySettings(
  type: DestinationType,
  options: object,
  before: DestinationFlush | null,
): DestinationPatch {
  const {
    'flush.max_records': records,
    'flush.max_bytes': bytes,
    'flush.max_seconds': seconds,
    flush,
    'rate.requests_per_second': rate,
    ...settings
  } = fieldsFromFlags(deliveryFlags, options)
  const own = ownFlush(type, { records, bytes, seconds }, before) ?? flush
  return {
    ...settings,
    ...(own === undefined ? {} : { flush: own }),
    ...(rate === undefined ? {} : { rate: rate === null ? null : { requests_per_second: rate } }),
  }
}

interface GivenFlush {
  records: number | undefined
  bytes: number | undefined
  seconds: number | undefined
}

/** Undefined: none of its limits is given. */
function ownFlush(
  type: DestinationType,
  { records, bytes, seconds }: GivenFlush,
  before: DestinationFlush | null,
): DestinationFlush | undefined {
  if (records === undefined && bytes === undefined && seconds === undefined) return undefined
  const { maxRecords, maxBytes, maxSeconds } = wordsOf(type).defaultFlush
  return {
    max_records: records ?? before?.max_records ?? maxRecords,
    max_bytes: bytes ?? before?.max_bytes ?? maxBytes,
    max_seconds: seconds ?? before?.max_seconds ?? maxSeconds,
  }
}
