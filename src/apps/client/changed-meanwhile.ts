/**
 * A change of a resource that another user has changed since it was read. The daemon rejects the change and returns
 * the current state (docs/dev/contract.md#concurrent-changes), so that the user can see the differences.
 */
import { isObject } from '../../contract/is-object.ts'
import { type Difference, differences } from './differences.ts'
import { ApiFailure, exitCodes, Failure } from './failure.ts'

/** Excluded from the comparison: counters of the service, and fields that other operations change. */
const notSettings: ReadonlySet<string> = new Set([
  ...['lane', 'tls_pin', 'api_keys', 'destinations', 'status'],
  ...['pipe_updated_ts', 'destination_updated_ts'],
])
/** The objects of a body that have such keys. */
const shownResources: ReadonlySet<string> = new Set(['pipe', 'destination'])
/** Further differences are not listed. */
const maxListed = 8

/** The settings that differ between two bodies of the same GET. */
export function changedSettings(before: object, now: object): Difference[] {
  return differences(settingsOf(before), settingsOf(now))
}

/** The settings of users in the body of a GET, or in one resource of it. */
export function settingsOf(body: object): object {
  const kept = Object.entries(body).filter(([key]) => !notSettings.has(key))
  return Object.fromEntries(
    kept.map(([key, value]) => [key, shownResources.has(key) && isObject(value) ? settingsOf(value) : value]),
  )
}

/** `pipe.pipe_description: "mine" → "theirs"`, one per line. */
function listed(found: readonly Difference[]): string {
  const lines = found
    .slice(0, maxListed)
    .map((one) => `\n  ${one.path}: ${shown(one.before)} → ${shown(one.now)}`)
  return lines.join('') + (found.length > maxListed ? `\n  and ${found.length - maxListed} more` : '')
}

function shown(text: string | null): string {
  if (text === null) return 'not set'
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`
}

/**
 * Makes a change if `read`, the body of the GET before it, is still current. Throws Failure (conflict), which lists
 * the settings that another user has changed since.
 */
export async function ifUnchanged<T>(name: string, read: object, change: () => Promise<T>): Promise<T> {
  try {
    return await change()
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.code !== 'changed_meanwhile') throw error
    const { present } = error.body
    throw changedMeanwhile(name, isObject(present) ? changedSettings(read, present) : [], error)
  }
}

export function changedMeanwhile(name: string, found: readonly Difference[], cause?: unknown): Failure {
  return new Failure(
    exitCodes.conflict,
    `someone else has changed ${name} in the meantime, and nothing was done${found.length === 0 ? '' : `:${listed(found)}`}`,
    'run the command again to change the current state',
    cause,
  )
}
