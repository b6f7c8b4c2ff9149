/**
 * Opens drivers for the delivery thread. A driver and its client library are loaded when the first batch needs them: a
 * daemon without a bucket never loads the object store's SDK. The destination types are at the end.
 */
import { type DestinationType, resolveConfig, type TableColumn } from '../contract/destination.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import { configuredSecrets } from './configured-secrets.ts'
import {
  type AttemptProgress,
  DeliveryError,
  type DestinationCheck,
  type DestinationDescriptor,
  type DestinationDriver,
  type DestinationSpec,
  type DriverSettings,
  type EgressPolicy,
  type InferRequest,
  noProgress,
  type PinServerKey,
  type Sample,
  withoutSecretsIn,
} from './driver.ts'
import { checkTargetHost, checkTargetUrl } from './egress.ts'
import { cleanText, cutToCharacters, withoutSecrets } from './error-text.ts'
import { isPrivateDenied } from './guards.ts'
import { httpEndpoint } from './http-endpoint/descriptor.ts'
import { nats } from './nats/descriptor.ts'
import { objectStore } from './object-store/descriptor.ts'
import { pull } from './pull/descriptor.ts'
import { database } from './sql/descriptor.ts'
import { sqlite } from './sqlite/descriptor.ts'

/**
 * Opening does no I/O and never fails; a driver that cannot be loaded is an error of its first delivery. If `egress`
 * has become stricter since the driver connected, it is replaced before the next attempt.
 */
export function openDriver(
  spec: DestinationSpec,
  settings: DriverSettings,
  pin: PinServerKey,
): DestinationDriver {
  let opening: Promise<DestinationDriver> | undefined
  let wasPrivateDenied = false
  if (spec.unreadableSecrets !== undefined) return unusable(spec.unreadableSecrets)
  return {
    async deliver(batch, signal, progress = noProgress) {
      const isDenied = isPrivateDenied(settings.egress)
      if (opening !== undefined && isDenied !== wasPrivateDenied) {
        await (await opening).close()
        opening = undefined
      }
      wasPrivateDenied = isDenied
      // A failed load (for example without free file descriptors) is repeated at the next attempt.
      opening ??= load(spec, settings, pin).catch((error) => {
        opening = undefined
        throw error
      })
      try {
        await (await opening).deliver(batch, signal, withCleanTexts(progress, spec))
      } catch (error) {
        throw error instanceof DeliveryError ? error.scrubbed(secretsOf(spec)) : error
      }
    },
    async close() {
      await (await opening)?.close()
    },
  }
}

/** Cleans the texts of parked records, since they are stored and shown like any error. */
function withCleanTexts(progress: AttemptProgress, spec: DestinationSpec): AttemptProgress {
  const { park } = progress
  if (park === null) return progress
  const secrets = secretsOf(spec)
  return {
    ...progress,
    park: (rejected) => park(rejected.map((record) => withoutSecretsIn(record, secrets))),
  }
}

export async function checkDestination(
  spec: DestinationSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  sample: Sample | null,
): Promise<DestinationCheck[]> {
  const module = await descriptorOf(spec.type).load(spec)
  const checks = await module.check(spec, settings, signal, sample)
  const secrets = secretsOf(spec)
  const cleaned = (text: string) => withoutSecrets(cleanText(text), secrets)
  return checks.map(({ tableColumns, ...check }) => ({
    ...check,
    message: cleaned(check.message),
    ...(tableColumns === undefined ? {} : { tableColumns: boundedColumns(tableColumns, cleaned) }),
  }))
}

/** Proposes a table for a database. The server's messages are cleaned as in a check. */
export async function inferForDestination(
  spec: DestinationSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  request: InferRequest,
): Promise<TableProposal> {
  const module = await descriptorOf(spec.type).load(spec)
  if (module.infer === undefined) throw new Error(`${spec.type} has no tables`)
  const proposal = await module.infer(spec, settings, signal, request)
  const secrets = secretsOf(spec)
  const { failure } = proposal
  if (failure === null) return proposal
  return {
    ...proposal,
    failure: { ...failure, message: withoutSecrets(cleanText(failure.message), secrets) },
  }
}

/** Removes the state of a deleted destination. Rejects with a DeliveryError, or with the client library's error. */
export async function forgetDestination(
  spec: DestinationSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<void> {
  const module = await descriptorOf(spec.type).load(spec)
  await module.forget?.(spec, settings, signal)
}

function boundedColumns(columns: readonly TableColumn[], cleaned: (text: string) => string): TableColumn[] {
  const short = (text: string) => cutToCharacters(cleaned(text), resourceLimits.tableColumnCharacters)
  return columns.slice(0, resourceLimits.shownTableColumns).map((column) => ({
    ...column,
    column_name: short(column.column_name),
    data_type: short(column.data_type),
  }))
}

/** A driver that rejects every batch while a secret cannot be decrypted, so that nothing is sent without it. */
function unusable(places: readonly string[]): DestinationDriver {
  const flags = places.map((place) => `--secret ${place}`).join(' ')
  const message = `The stored ${places.join(' and ')} cannot be read: the sealed value was altered, or its key is lost. Set it again: pipectl destinations update … ${flags}.`
  return {
    deliver: () => Promise.reject(new DeliveryError('permanent', 'secret_unreadable', message)),
    close: async () => {},
  }
}

async function load(
  spec: DestinationSpec,
  settings: DriverSettings,
  pin: PinServerKey,
): Promise<DestinationDriver> {
  return (await descriptorOf(spec.type).load(spec)).open(spec, settings, pin)
}

/** Every value of the config that must not appear in a stored error. */
export function secretsOf(spec: DestinationSpec): string[] {
  return configuredSecrets(spec, descriptorOf(spec.type).secrets(spec.config))
}

/** The destination types, one line each. Importing this loads no driver and no client library. */
const descriptors: Record<DestinationType, DestinationDescriptor> = {
  destination_database: database,
  destination_sqlite: sqlite,
  destination_object_store: objectStore,
  destination_http_endpoint: httpEndpoint,
  destination_nats: nats,
  destination_pull: pull,
}

export function descriptorOf(type: DestinationType): DestinationDescriptor {
  return descriptors[type]
}

/** Why this service cannot have destinations of the type. Returns the config key at fault, or null. */
export function unavailableFault(
  type: DestinationType,
  settings: DriverSettings,
): [key: string, message: string] | null {
  return descriptorOf(type).unavailable?.(settings) ?? null
}

/** Checks the spelling of a config's hosts against the egress policy. Returns the config key at fault, or null. */
export function targetFault(
  type: DestinationType,
  config: Readonly<Record<string, unknown>>,
  policy: EgressPolicy,
): [key: string, message: string] | null {
  for (const target of descriptorOf(type).targets(resolveConfig(type, config).config)) {
    const fault =
      'host' in target ? checkTargetHost(target.host, policy, target) : checkTargetUrl(target.url, policy)
    if (fault !== null) return [target.key, fault.message]
  }
  return null
}
