/** `--name`, `--flush-…`, `--rate`, `--concurrency`, `--on-permanent-error`: a destination's name and its own delivery settings. */
import { type Command, Option } from 'commander'
import {
  type DestinationFlush,
  type OnPermanentError,
  onPermanentErrors,
} from '../../../contract/delivery-settings.ts'
import { type DestinationType, destinationTypes, wordsOf } from '../../../contract/destination-words.ts'
import { bytes, count } from '../../../platform/quantities.ts'
import type { DestinationPatch } from '../../client/client.ts'
import { exitCodes, Failure } from '../../client/failure.ts'

export interface DeliveryOptions {
  name?: string
  flush?: boolean
  flushRecords?: string
  flushBytes?: string
  flushSeconds?: string
  rate?: string
  concurrency?: string
  onPermanentError?: OnPermanentError
}

export function addDeliveryOptions(command: Command): void {
  command
    .option(
      '--name <name>',
      'a name, unique in the pipe: PIPE/NAME; "" for the default, which is the kind (database, database-2, …)',
    )
    .option('--flush-records <number>', 'records that close a batch')
    .option('--flush-bytes <number>', 'bytes that close a batch')
    .option('--flush-seconds <number>', 'seconds that close a batch')
    .option('--no-flush', "no batch limits of its own: the pipe's limits or the defaults hold")
    .option('--rate <number>', 'most requests (statements, objects) per second; `none` for no limit')
    .option(
      '--concurrency <number>',
      'HTTP and NATS: requests of one batch at the same time (1 to 32; default 1)',
    )
    .addOption(
      new Option(
        '--on-permanent-error <what>',
        'what is refused for good blocks the lane (default), or is parked and the lane goes on',
      ).choices(onPermanentErrors),
    )
}

/** Default batch limits by type, for `--help`. */
export function flushHelp(): string {
  const lines = destinationTypes
    .filter((type) => type !== 'destination_pull')
    .map((type) => {
      const { kind, defaultFlush: limits } = wordsOf(type)
      const seconds = limits.maxSeconds === 0 ? 'sent at once' : `${limits.maxSeconds} s`
      return `  ${kind.padEnd(14)} ${count(limits.maxRecords)} records, ${bytes(limits.maxBytes)}, ${seconds}`
    })
  return `A batch is closed by the first of its limits. Without --flush-… the pipe's limits hold, else by type:\n${lines.join('\n')}`
}

/** Only what was given. `before`: the limits that those not given keep. Throws Failure (usage). */
export function deliverySettings(
  type: DestinationType,
  options: DeliveryOptions,
  before: DestinationFlush | null,
): DestinationPatch {
  const settings: DestinationPatch = {}
  if (options.name !== undefined) settings.destination_name = options.name === '' ? null : options.name
  const flush = ownFlush(type, options, before)
  if (flush !== undefined) settings.flush = flush
  if (options.rate !== undefined) {
    settings.rate =
      options.rate === 'none'
        ? null
        : { requests_per_second: numberFrom('--rate', options.rate, /^\d+(\.\d+)?$/) }
  }
  if (options.concurrency !== undefined) {
    settings.concurrency = numberFrom('--concurrency', options.concurrency, /^\d{1,3}$/)
  }
  if (options.onPermanentError !== undefined) settings.on_permanent_error = options.onPermanentError
  return settings
}

function ownFlush(
  type: DestinationType,
  options: DeliveryOptions,
  before: DestinationFlush | null,
): DestinationFlush | null | undefined {
  const { flushRecords, flushBytes, flushSeconds } = options
  if (flushRecords === undefined && flushBytes === undefined && flushSeconds === undefined) {
    return options.flush === false ? null : undefined
  }
  const { defaultFlush: usual } = wordsOf(type)
  const from = before ?? {
    max_records: usual.maxRecords,
    max_bytes: usual.maxBytes,
    max_seconds: usual.maxSeconds,
  }
  const chosen = (flag: string, value: string | undefined, otherwise: number) =>
    value === undefined ? otherwise : numberFrom(flag, value, /^\d{1,15}$/)
  return {
    max_records: chosen('--flush-records', flushRecords, from.max_records),
    max_bytes: chosen('--flush-bytes', flushBytes, from.max_bytes),
    max_seconds: chosen('--flush-seconds', flushSeconds, from.max_seconds),
  }
}

function numberFrom(flag: string, value: string, pattern: RegExp): number {
  if (pattern.test(value)) return Number(value)
  throw new Failure(
    exitCodes.usage,
    `${flag} ${JSON.stringify(value)} is not a number it takes`,
    `e.g. ${flag} 10`,
  )
}
