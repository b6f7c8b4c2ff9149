/**
 * The rules for a transform beyond its shape, and the result of a PATCH on a stored one. Errors carry the paths of
 * the request body (`transform.map.2.from`).
 */
import { redacted } from '../../contract/destination-words.ts'
import { validationError } from '../../contract/errors.ts'
import { isObject } from '../../contract/is-object.ts'
import {
  type GivenTransform,
  maskSaltPlace,
  pathKeys,
  type Transform,
  type TransformStep,
  transformLimits,
} from '../../contract/transform.ts'
import { type FieldErrors, throwIfErrors } from '../../contract/validate.ts'

/** Returns the fault of an expression. Null if it compiles. */
export type FilterFault = (filter: string) => string | null

/** The compiler of expressions is loaded with the first filter that is sent. */
export async function filterFaultFor(body: unknown): Promise<FilterFault | null> {
  const filter = isObject(body) && isObject(body.transform) ? body.transform.filter : undefined
  if (typeof filter !== 'string') return null
  return (await import('../../delivery/transform/compile.ts')).filterFault
}

const minSaltCharacters = 8

/**
 * The `transform` of a body: undefined if it has none, null to remove it. A salt that is not sent is that of the
 * stored transform. Throws `validation_error`.
 */
export function givenTransform(
  { transform: given }: { transform?: GivenTransform | null | undefined },
  stored: Transform | null,
  filterFault: FilterFault | null,
): Transform | null | undefined {
  if (given === undefined || given === null) return given
  const { filter = null, map = [], mask_salt } = given
  const isKept = mask_salt === undefined || mask_salt === '' || mask_salt === redacted
  const transform: Transform = { filter, map, mask_salt: isKept ? (stored?.mask_salt ?? null) : mask_salt }
  throwIfErrors(ruleErrors(transform, isKept, filterFault))
  return filter === null && map.length === 0 ? null : transform
}

export const unreadableText = 'must be sent again: the stored value cannot be read'

/**
 * Throws `validation_error` if the transform masks and its stored salt is empty, which means that it was lost or
 * cannot be decrypted: it must be sent again.
 */
export function requireReadableSalt(transform: Transform | null): void {
  if (transform?.mask_salt === '' && masks(transform.map))
    throw validationError({ [maskSaltPlace]: unreadableText })
}

function masks(map: readonly TransformStep[]): boolean {
  return map.some(({ op }) => op === 'mask')
}

function ruleErrors(
  { filter, map, mask_salt }: Transform,
  isSaltKept: boolean,
  filterFault: FilterFault | null,
): FieldErrors {
  const errors: FieldErrors = {}
  const fault = filter === null ? null : (filterFault?.(filter) ?? null)
  if (fault !== null) errors['transform.filter'] = fault
  const characters = JSON.stringify(map).length
  if (characters > transformLimits.mapCharacters)
    errors['transform.map'] =
      `can have at most ${transformLimits.mapCharacters} characters as JSON, not ${characters}`
  map.forEach((step, at) => {
    for (const [place, path] of pathsOf(step)) {
      const keys = pathKeys(path)
      if (!Array.isArray(keys)) errors[`transform.map.${at}.${place}`] = keys.wrong
    }
  })
  const needsSalt = masks(map)
  // A salt that cannot be decrypted is empty.
  if (needsSalt && (mask_salt === null || mask_salt === ''))
    errors['transform.mask_salt'] = 'is required by mask'
  else if (!isSaltKept && mask_salt !== null && mask_salt.length < minSaltCharacters)
    errors['transform.mask_salt'] =
      `must be at least ${minSaltCharacters} characters, not ${mask_salt.length}`
  return errors
}

function pathsOf(step: TransformStep): [place: string, path: string][] {
  if (step.op === 'move') return [['from', step.from]]
  return 'paths' in step ? step.paths.map((path, at) => [`paths.${at}`, path]) : []
}
