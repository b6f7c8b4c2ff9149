/**
 * The transform of a destination: `filter` is an expression that selects records of the pipe, `map` a list of steps
 * that change them. `delivery/transform/` applies it.
 */
import Type, { type Static } from 'typebox'
import { redacted } from './destination-words.ts'
import { closed, nullable, string } from './schema-parts.ts'

export { maskSaltPlace, type TransformOp, transformOps } from './transform-words.ts'

/**
 * Limits of a transform. They bound everything that costs time per record. The thread that evaluates an expression
 * bounds its cost on large records (`delivery/transform/transform-threads.ts`).
 */
export const transformLimits = {
  filterCharacters: 2_000,
  filterNodes: 500,
  filterDepth: 40,
  steps: 50,
  pathsPerStep: 100,
  pathCharacters: 500,
  pathKeys: 20,
  constantCharacters: 1_000,
  /** Size of `map` as JSON. It is also the maximum size that `map` adds to a record. */
  mapCharacters: 8_000,
  saltCharacters: 200,
} as const

const { steps, pathsPerStep, pathCharacters, constantCharacters } = transformLimits

const path = (description: string) => Type.String({ minLength: 1, maxLength: pathCharacters, description })
const paths = (description: string) => Type.Array(path(description), { minItems: 1, maxItems: pathsPerStep })
const key = Type.String({
  minLength: 1,
  maxLength: pathCharacters,
  description: 'A key at the top level. Dots are part of the key.',
})
const aPath = 'A key, or keys separated by dots: `user.address.city`. A dot within a key is written `\\.`.'

const stepSchemas = {
  rename: Type.Object({ op: Type.Enum(['rename']), from: key, to: key }, closed),
  drop: Type.Object({ op: Type.Enum(['drop']), paths: paths(aPath) }, closed),
  keep: Type.Object({ op: Type.Enum(['keep']), paths: paths(aPath) }, closed),
  mask: Type.Object({ op: Type.Enum(['mask']), paths: paths(aPath) }, closed),
  constant: Type.Object(
    {
      op: Type.Enum(['constant']),
      key,
      value: Type.Union([
        Type.String({ maxLength: constantCharacters }),
        Type.Number({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
        Type.Boolean(),
        Type.Null(),
      ]),
    },
    closed,
  ),
  move: Type.Object({ op: Type.Enum(['move']), from: path(aPath), to: key }, closed),
} as const

const { rename, drop, keep, mask, constant, move } = stepSchemas
export const TransformStep = Type.Union([rename, drop, keep, mask, constant, move])
export type TransformStep = Static<typeof TransformStep>

const filter = Type.String({
  minLength: 1,
  maxLength: transformLimits.filterCharacters,
  description:
    'CEL, with the record as `record`; true: the destination gets it. `record.status == "paid" && record.total > 10`.',
})

/** A transform as clients send it. */
export const GivenTransform = Type.Object(
  {
    filter: Type.Optional(nullable(filter)),
    map: Type.Optional(Type.Array(TransformStep, { maxItems: steps })),
    mask_salt: Type.Optional(
      Type.String({
        maxLength: transformLimits.saltCharacters,
        description: `A secret that \`mask\` requires: 8 characters or more. Without it, or with "" or "${redacted}", the stored one is kept.`,
      }),
    ),
  },
  {
    ...closed,
    description:
      'Which records the destination gets, and how they are changed: first the filter, then the steps of `map` in order. Replaces the stored transform as a whole; null removes it. Not for pull destinations. It applies to everything that is not delivered yet.',
  },
)
export type GivenTransform = Static<typeof GivenTransform>

/** The field in requests. */
export const givenTransform = { transform: Type.Optional(nullable(GivenTransform)) } as const

/** A transform in responses. */
export const ShownTransform = Type.Object({
  filter: nullable(Type.String()),
  map: Type.Array(TransformStep),
  mask_salt: Type.Optional(string(`"${redacted}" if one is set.`)),
})
export type ShownTransform = Static<typeof ShownTransform>

/** A transform as delivery applies it, with the salt in plain text. */
export interface Transform {
  readonly filter: string | null
  readonly map: readonly TransformStep[]
  readonly mask_salt: string | null
}

/** A salt that was removed or cannot be read is empty. It is shown as not set, so that `apply` sends it again. */
export function shownTransform(transform: Transform | null): ShownTransform | null {
  if (transform === null) return null
  const { mask_salt, ...shown } = transform
  return { ...shown, map: [...shown.map], ...(mask_salt ? { mask_salt: redacted } : {}) }
}

/** Returns the keys of a path, or the fault as a sentence that continues the name of the field. */
export function pathKeys(text: string): string[] | { wrong: string } {
  const keys: string[] = ['']
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]!
    if (character === '\\') {
      const next = text[at + 1]
      if (next !== '.' && next !== '\\')
        return { wrong: 'can have a backslash only before a dot or a backslash' }
      keys[keys.length - 1] += next
      at += 1
    } else if (character === '.') keys.push('')
    else keys[keys.length - 1] += character
  }
  if (keys.includes('')) return { wrong: 'has an empty key: dots separate keys' }
  const { pathKeys: most } = transformLimits
  return keys.length > most ? { wrong: `can have at most ${most} keys` } : keys
}
