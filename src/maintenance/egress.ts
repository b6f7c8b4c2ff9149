/**
 * Resolves `egress.private` for a data directory, and finds the destinations that it denies. For commands that run
 * next to the daemon with the same settings.
 */
import { existsSync } from 'node:fs'
import type { DestinationSpec, EgressPolicy } from '../destinations/driver.ts'
import { isPrivateDenied } from '../destinations/guards.ts'
import { isTargetDenied } from '../destinations/target-check.ts'
import { countWorkspaces } from '../metadata/sqlite/offline.ts'
import type { Metadata } from '../metadata/store.ts'
import type { Settings } from '../settings/settings.ts'
import { type Check, ok, warn } from './check.ts'
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
  const workspaces = countWorkspaces(metadataFile)
  return { isDenied: isPrivateDenied(policyOf(settings, workspaces)), workspaces }
}

export function egressCheck(settings: Settings): Check {
  const name = 'egress'
  const rule = `egress.private is ${settings['egress.private']}`
  let found: ReturnType<typeof egressInEffect>
  try {
    found = egressInEffect(settings)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return warn(name, `${rule}; the workspaces cannot be counted: ${why}`, 'fix the metadata file first')
  }
  if (found === null) return ok(name, rule)
  const { isDenied, workspaces } = found
  const many = workspaces > 1
  const detail = `${rule}: with ${many ? `${workspaces} workspaces` : 'one workspace'} private addresses are ${isDenied ? 'denied' : 'allowed'}`
  if (!many || isDenied) return ok(name, detail)
  return warn(
    name,
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
  for (let from = 0; from < specs.length; from += lookUpsAtOnce) {
    const some = specs.slice(from, from + lookUpsAtOnce)
    const verdicts = await Promise.all(
      some.map((spec: DestinationSpec) => isTargetDenied(spec, policy, stop)),
    )
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
