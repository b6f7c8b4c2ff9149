/**
 * A change of something that someone else has changed since it was read. The daemon rejects it and returns the present state
 * (docs/dev/contract.md#concurrent-changes), so that a person can be told what is different.
 */
import { isObject } from '../../contract/is-object.ts'
import { ApiFailure, exitCodes, Failure } from './failure.ts'

/** Left out of a comparison: what the service counts, and what other operations change. */
const notSettings: ReadonlySet<string> = new Set(['lane', 'tls_pin', 'api_keys', 'destinations', 'status'])
/** More are not listed. */
const mostListed = 8

export interface Difference {
  /** Names joined with dots, such as `limits.pl_ingest_max_records_per_second`. */
  path: string
  before: unknown
  now: unknown
}

/** The settings that differ between two bodies of one GET. Objects are compared key by key, lists as a whole. */
export function differences(before: unknown, now: unknown, path: readonly string[] = []): Difference[] {
  if (isObject(before) && isObject(now)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(now)])
    return [...keys]
      .filter((key) => path.length > 0 || !notSettings.has(key))
      .filter((key) => !(path.length === 1 && notSettings.has(key)))
      .flatMap((key) => differences(before[key], now[key], [...path, key]))
  }
  const isSame = JSON.stringify(before) === JSON.stringify(now)
  return isSame ? [] : [{ path: path.join('.'), before, now }]
}

/** `pipe.pipe_description: "mine" → "theirs"`, a line each. */
function listed(found: readonly Difference[]): string {
  const lines = found.slice(0, mostListed).map((one) => `\n  ${one.path}: ${shown(one.before)} → ${shown(one.now)}`)
  return lines.join('') + (found.length > mostListed ? `\n  and ${found.length - mostListed} more` : '')
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'not set'
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`
}

/**
 * Makes a change on condition that `read`, the body of the GET before it, is still true. Throws Failure (conflict) that lists what
 * someone else has changed since.
 */
export async function ifUnchanged<T>(name: string, read: unknown, change: () => Promise<T>): Promise<T> {
  try {
    return await change()
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 'changed_meanwhile')
      throw changedMeanwhile(name, differences(read, error.body.present), error)
    throw error
  }
}

export function changedMeanwhile(name: string, found: readonly Difference[], cause?: unknown): Failure {
  return new Failure(
    exitCodes.conflict,
    `someone else has changed ${name} in the meantime, and nothing was done${found.length === 0 ? '' : `:${listed(found)}`}`,
    'run the command again to make your change to what it is now',
    cause,
  )
}
