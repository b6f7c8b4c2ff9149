/**
 * Checks whether a stored destination would be denied, without dialing it: by its spelling, then by the addresses of its name.
 */
import type { ConfigTarget, DestinationSpec, EgressPolicy } from './driver.ts'
import { descriptorOf, targetFault } from './drivers.ts'
import { portOf } from './egress.ts'
import { isAddressAllowed, normaliseHost, parseLiteral } from './guards.ts'
import { lookUp } from './resolver.ts'

/** Returns false too for a name that does not resolve before `stop`. */
export async function isTargetDenied(
  { type, config }: Pick<DestinationSpec, 'type' | 'config'>,
  policy: EgressPolicy,
  stop: AbortSignal,
): Promise<boolean> {
  if (targetFault(type, { ...config }, policy) !== null) return true
  const targets = descriptorOf(type).targets(config)
  const denied = await Promise.all(targets.map((target) => isDenied(target, policy, stop)))
  return denied.includes(true)
}

async function isDenied(target: ConfigTarget, policy: EgressPolicy, stop: AbortSignal): Promise<boolean> {
  const host = normaliseHost('host' in target ? target.host : new URL(target.url).hostname)
  if (parseLiteral(host) !== null) return false
  const port = 'host' in target ? target.port : portOf(new URL(target.url))
  const addresses = await lookUp(host, stop).catch(() => [])
  return addresses.length > 0 && !addresses.some((address) => isAddressAllowed(address, host, policy, port))
}
