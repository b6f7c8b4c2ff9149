/**
 * Resolves `egress.private` for a data directory, and finds the destinations that it denies. For commands that run
 * next to the daemon with the same settings.
 */
import { existsSync } from 'node:fs'
import type { ConfigTarget, DestinationSpec, EgressPolicy } from '../destinations/driver.ts'
import { descriptorOf, targetFault } from '../destinations/drivers.ts'
import { portOf } from '../destinations/egress.ts'
import { isAddressAllowed, isPrivateDenied, normaliseHost, parseLiteral } from '../destinations/guards.ts'
import { lookUp } from '../destinations/resolver.ts'
import { countAlerts } from '../metadata/sqlite/offline-alerts.ts'
import type { Metadata } from '../metadata/store.ts'
import { messageOf } from '../platform/error-code.ts'
import { slices } from '../platform/slices.ts'
import type { Settings } from '../settings/settings.ts'
import { type Check, checkNamed } from './check.ts'
import { dataDirAt } from './data-dir.ts'

export interface DeniedDestination {
  workspace: string
  pipe: string
  destinationId: string
}

const lookUpLimitMs = 5_000
const lookUpsAtOnce = 16

/** Null: there is no data directory in which workspaces can be counted. */
export function egressInEffect(settings: Settings): { isDenied: boolean; workspaces: number } | null {
  const { metadataFile } = dataDirAt(settings.data_dir)
  if (!existsSync(metadataFile)) return null
  const { workspaces } = countAlerts(metadataFile)
  return { isDenied: isPrivateDenied(policyOf(settings, workspaces)), workspaces }
}

export function egressCheck(settings: Settings): Check {
  const check = checkNamed('egress')
  const rule = `egress.private is ${settings['egress.private']}`
  let found: ReturnType<typeof egressInEffect>
  try {
    found = egressInEffect(settings)
  } catch (error) {
    const why = messageOf(error)
    return check.warn(`${rule}; the workspaces cannot be counted: ${why}`, 'fix the metadata file first')
  }
  if (found === null) return check.ok(rule)
  const { isDenied, workspaces } = found
  const many = workspaces > 1
  const detail = `${rule}: with ${many ? `${workspaces} workspaces` : 'one workspace'} private addresses are ${isDenied ? 'denied' : 'allowed'}`
  if (!many || isDenied) return check.ok(detail)
  return check.warn(
    detail,
    'if you do not trust all workspaces, set egress.private to "auto" or "deny"; egress.allow lists exceptions',
  )
}

/**
 * The destinations that these settings deny for this number of workspaces. Host names are resolved; a name that
 * cannot be resolved here is left out.
 */
export async function deniedDestinations(
  metadata: Pick<Metadata, 'laneSource' | 'workspaces'>,
  settings: Settings,
  workspaces: number,
): Promise<DeniedDestination[]> {
  const policy = policyOf(settings, workspaces)
  const names = new Map((await metadata.workspaces.list()).map((one) => [one.workspaceId, one.name]))
  const specs = (await metadata.laneSource.allPipes()).flatMap((pipe) => pipe.lanes)
  const stop = AbortSignal.timeout(lookUpLimitMs)
  const denied: DeniedDestination[] = []
  for (const some of slices(specs, lookUpsAtOnce)) {
    const verdicts = await Promise.all(some.map((spec) => isTargetDenied(spec, policy, stop)))
    for (const [index, spec] of some.entries())
      if (verdicts[index] === true)
        denied.push({
          workspace: names.get(spec.workspaceId) ?? spec.workspaceId,
          pipe: spec.pipeName,
          destinationId: spec.destinationId,
        })
  }
  return denied
}

function policyOf(settings: Settings, workspaces: number): EgressPolicy {
  const memory = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
  Atomics.store(new Int32Array(memory), 0, workspaces)
  return {
    allow: settings['egress.allow'],
    deny: settings['egress.deny'],
    private: settings['egress.private'],
    workspaces: memory,
  }
}

/**
 * By its spelling, then by the addresses of its name, without dialing it. False too for a name that does not resolve before
 * `stop`.
 */
async function isTargetDenied(
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
