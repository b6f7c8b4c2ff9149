/**
 * The regular expressions of `matches`, in time linear in the text: RE2's engine and syntax. CEL asks for it, and RegExp, which backtracks,
 * lets one pattern hold a thread for longer than anyone waits.
 */
import { RE2JS } from 're2js'
import { transformLimits } from '../../contract/transform.ts'

/** A pattern can keep 8 MiB of states that it has seen: these fit into the heap of a thread. */
const keptPatterns = 16
const patterns = new Map<string, RE2JS>()

/** Whether the pattern is found anywhere in the text. Throws for a pattern that is not valid. */
export function isFound(text: string, pattern: string): boolean {
  return patternOf(pattern).test(text)
}

/** The fault of a pattern, on one line; null if it is valid. */
export function patternFault(pattern: string): string | null {
  try {
    patternOf(pattern)
    return null
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return message.replace(/^error parsing regexp: /, '').replace(/\s+/g, ' ')
  }
}

/** Compiled, and kept while it is one of those used last. */
function patternOf(pattern: string): RE2JS {
  const known = patterns.get(pattern)
  // One that a record brings can be as long as the record.
  if (known === undefined && pattern.length > transformLimits.filterCharacters)
    throw new Error(`longer than ${transformLimits.filterCharacters} characters`)
  const compiled = known ?? RE2JS.compile(RE2JS.translateRegExp(pattern))
  patterns.delete(pattern)
  patterns.set(pattern, compiled)
  if (patterns.size > keptPatterns) patterns.delete(patterns.keys().next().value!)
  return compiled
}
