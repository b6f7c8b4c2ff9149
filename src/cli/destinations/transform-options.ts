/** `--filter`, `--map`, `--no-transform`: which records a destination gets, and what is changed in them on the way. */
import type { Command } from 'commander'
import type { DestinationPatch } from '../../client/client.ts'
import { exitCodes, Failure } from '../../client/failure.ts'
import type { ShownTransform } from '../../contract/transform.ts'

export interface TransformOptions {
  filter?: string
  map?: string[]
  transform?: boolean
}

const saltVariable = 'PIPECTL_DESTINATION_MASK_SALT'

export function addTransformOptions(command: Command): void {
  command
    .option(
      '--filter <expression>',
      'records that it gets, in CEL: \'record.status == "paid"\'; "" for all (docs/transform.md)',
    )
    .option(
      '--map <step>',
      `a change of each record, as JSON; may be repeated, in order: '{"op":"drop","paths":["user.email"]}'; mask takes its salt from ${saltVariable}`,
      (step: string, before: string[] | undefined) => [...(before ?? []), step],
    )
    .option('--no-transform', 'all records as they are: neither filter nor map')
}

/** Only what was given. `before`: what the one that was not given keeps. Throws Failure (usage). */
export function transformSettings(
  { filter, map, transform }: TransformOptions,
  before: ShownTransform | null | undefined,
): Pick<DestinationPatch, 'transform'> {
  const salt = process.env[saltVariable]
  const isChanged = filter !== undefined || map !== undefined
  if (transform === false) {
    if (!isChanged) return { transform: null }
    throw new Failure(
      exitCodes.usage,
      '--no-transform contradicts --filter and --map',
      'leave one of them out',
    )
  }
  if (!isChanged) return {}
  return {
    transform: {
      filter: filter === undefined ? (before?.filter ?? null) : filter || null,
      // The daemon says what is wrong with a step.
      map: (map === undefined ? (before?.map ?? []) : map.map(parsedStep)) as ShownTransform['map'],
      ...(salt === undefined ? {} : { mask_salt: salt }),
    },
  }
}

function parsedStep(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Failure(
      exitCodes.usage,
      `--map ${JSON.stringify(text)} is not JSON`,
      'e.g. --map \'{"op":"rename","from":"a","to":"b"}\'',
    )
  }
}
