/** `--filter`, `--map`, `--no-transform`: which records a destination receives, and how they are changed. */
import type { Command } from 'commander'
import { maskSaltPlace, type ShownTransform } from '../../../contract/transform.ts'
import type { TransformCheck } from '../../../contract/transform-trial.ts'
import type { DestinationPatch, SaveOptions } from '../../client/client.ts'
import { usageFailure } from '../../client/failure.ts'
import { fieldsFromFlags, saltVariable, transformFlags } from '../../client/flag-fields.ts'
import { io } from '../io.ts'
import { say } from '../terminal.ts'
import { askFor } from './secrets.ts'

export interface TransformOptions {
  filter?: string
  map?: string[]
  transform?: boolean
  /** With `transform.mask_salt`, only the salt is set. */
  secret?: string[]
}

export interface TransformCheckOptions {
  /** False for --no-transform-check. */
  transformCheck?: boolean
}

export function addTransformCheckOption(command: Command): Command {
  return command.option(
    '--no-transform-check',
    'save a new transform without testing it on the newest records of the pipe',
  )
}

export function savingWith({ transformCheck = true }: TransformCheckOptions): SaveOptions {
  return transformCheck ? {} : { query: { check_transform: false } }
}

/** Prints the warning of the check, if there is one. */
export function sayTransformCheck({ transform_check: check }: { transform_check?: TransformCheck }): void {
  if (check?.warning) say(`Note: ${check.warning} See: pipectl destinations try-transform`)
}

/** Only the given settings. `before` has the parts that are kept if they are not given. Throws Failure (usage). */
export async function transformSettings(
  options: TransformOptions,
  before: ShownTransform | null | undefined,
): Promise<Pick<DestinationPatch, 'transform'>> {
  const asksForSalt = options.secret?.includes(maskSaltPlace) === true
  const given = fieldsFromFlags(transformFlags, options)
  const { 'transform.filter': filter, 'transform.map': map } = given
  const isChanged = filter !== undefined || map !== undefined || asksForSalt
  if (given.transform === null) {
    if (!isChanged) return { transform: null }
    throw usageFailure(
      `--no-transform cannot be used with --filter, --map and --secret ${maskSaltPlace}`,
      'omit one of them',
    )
  }
  if (!isChanged) return {}
  // The daemon validates the steps.
  const steps = (map ?? before?.map ?? []) as ShownTransform['map']
  if (asksForSalt && !steps.some((step) => step?.op === 'mask')) {
    const problem = `--secret ${maskSaltPlace}: no step of the map masks anything`
    throw usageFailure(problem, 'give the map with --map')
  }
  const salt = io().env[saltVariable] ?? (asksForSalt ? await askFor('salt', saltVariable) : undefined)
  return {
    transform: {
      filter: filter === undefined ? (before?.filter ?? null) : filter || null,
      map: steps,
      ...(salt === undefined ? {} : { mask_salt: salt }),
    },
  }
}
