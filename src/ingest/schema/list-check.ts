/** The keywords of lists. A value of another type passes. */
import type { SchemaNode } from '../../contract/record-schema.ts'
import { identityOf, sizeOf, stepsPerValue } from './canonical.ts'
import type { Check, Compiling, Run } from './run.ts'

export function listCheck(schema: SchemaNode, { compile }: Compiling): Check | null {
  const { minItems, maxItems, uniqueItems = false, items, prefixItems = [] } = schema
  const rest = items === undefined || items === true ? null : compile(items)
  const first = prefixItems.map(compile)
  if (minItems === undefined && maxItems === undefined && !uniqueItems && rest === null && first.length === 0)
    return null
  const [min, max] = [minItems ?? 0, maxItems ?? Number.POSITIVE_INFINITY]
  return (value, run) => {
    if (!Array.isArray(value)) return true
    run.spend(1)
    if (value.length < min) return run.fail(`must have at least ${elements(min)}`)
    if (value.length > max) return run.fail(`must have at most ${elements(max)}`)
    if (uniqueItems && !isDistinct(value, run)) return run.fail('must not contain the same value twice')
    return everyElement(value, { first, rest }, run)
  }
}

const elements = (count: number) => (count === 1 ? '1 element' : `${count} elements`)

function isDistinct(list: readonly unknown[], run: Run): boolean {
  run.spend(stepsPerValue * sizeOf(list, run.steps / stepsPerValue))
  return new Set(list.map(identityOf)).size === list.length
}

function everyElement(
  list: readonly unknown[],
  { first, rest }: { first: readonly Check[]; rest: Check | null },
  run: Run,
): boolean {
  const checked = rest === null ? Math.min(first.length, list.length) : list.length
  let matches = true
  for (let index = 0; index < checked; index++) {
    const check = index < first.length ? first[index]! : rest!
    if (run.inner(check, list[index], index)) continue
    matches = false
    if (run.isFull) break
  }
  return matches
}
