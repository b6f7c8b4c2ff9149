/**
 * The regular expressions of `matches`, evaluated by RE2 in time linear in the text, as CEL requires. JavaScript's
 * RegExp backtracks: one pattern could block a thread indefinitely.
 */
import { RE2JS } from 're2js'
import { transformLimits } from '../../contract/transform.ts'

/** A pattern can cache 8 MiB of states. This many fit into the heap of a thread. */
const keptPatterns = 16
const patterns = new Map<string, RE2JS>()

/** True when the pattern matches anywhere in the text. Throws for an invalid pattern. */
export function isFound(text: string, pattern: string): boolean {
  return patternOf(pattern).test(text)
}

/** The fault of a pattern on one line; null when it is valid. */
export function patternFault(pattern: string): string | null {
  try {
    patternOf(pattern)
    return null
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return message.replace(/^error parsing regexp: /, '').replace(/\s+/g, ' ')
  }
}

/** Returns the compiled pattern and caches the most recently used ones. */
function patternOf(pattern: string): RE2JS {
  const known = patterns.get(pattern)
  // A pattern taken from a record can be as long as the record.
  if (known === undefined && pattern.length > transformLimits.filterCharacters)
    throw new Error(`longer than ${transformLimits.filterCharacters} characters`)
  const compiled = known ?? RE2JS.compile(RE2JS.translateRegExp(pattern))
  patterns.delete(pattern)
  patterns.set(pattern, compiled)
  if (patterns.size > keptPatterns) patterns.delete(patterns.keys().next().value!)
  return compiled
}
