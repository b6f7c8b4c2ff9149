/** The destination types, one line each. Importing this loads no driver and no client library. */
import { type DestinationType, resolveConfig } from '../contract/destination.ts'
import type { DestinationDescriptor, EgressPolicy } from './driver.ts'
import { checkTargetHost, checkTargetUrl } from './egress.ts'
import { httpEndpoint } from './http-endpoint/descriptor.ts'
import { nats } from './nats/descriptor.ts'
import { objectStore } from './object-store/descriptor.ts'
import { pull } from './pull/descriptor.ts'
import { database } from './sql/descriptor.ts'

const descriptors: Record<DestinationType, DestinationDescriptor> = {
  destination_database: database,
  destination_object_store: objectStore,
  destination_http_endpoint: httpEndpoint,
  destination_nats: nats,
  destination_pull: pull,
}

export function descriptorOf(type: DestinationType): DestinationDescriptor {
  return descriptors[type]
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
