/** A walk over the bytes of a value (body-walk.ts), and the two that any schema can have. */
import type { Subschema } from '../../contract/record-schema.ts'
import { quote } from '../../log/record-text.ts'
import { afterValue, undecided } from './body-tokens.ts'
import type { Check, Run } from './run.ts'

/** Returns the index after the value that starts at `at` if it is known to match, or `undecided`. Throws OutOfSteps. */
export type Walk = (bytes: Buffer, at: number, run: Run) => number

/** Returns the walk of a schema. Null: it accepts every value. */
export type WalkCompiler = (schema: Subschema) => Walk | null

export const neverConfirmed: Walk = () => undecided

/** JSON.parse of a small value takes as long as so many steps. */
const decodingSteps = 4

/** Decodes the value and checks it. */
export function parsedWalk(check: Check): Walk {
  return (bytes, at, run) => {
    run.spend(decodingSteps)
    const end = afterValue(bytes, at)
    if (end === undecided) return undecided
    const text = bytes.toString('utf8', at, end)
    // JSON.parse of Node.js 24 mistakes some keys with escapes.
    if (bytes[at] !== quote && text.includes('\\')) return undecided
    return check(JSON.parse(text), run) ? end : undecided
  }
}
