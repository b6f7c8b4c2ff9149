/**
 * The patterns of schemas, evaluated by RE2 in time linear in the text. JavaScript's RegExp backtracks: one pattern
 * could block a thread indefinitely. Loaded with the first schema that has a pattern.
 */
import { RE2JS } from 're2js'

export type Pattern = (text: string) => boolean

/** Returns a test whether the pattern matches anywhere in a text. Throws for an invalid pattern. */
export function compilePattern(pattern: string): Pattern {
  const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
  return (text) => compiled.test(text)
}

/** The fault of a pattern on one line; null when it is valid. */
export function patternFault(pattern: string): string | null {
  try {
    compilePattern(pattern)
    return null
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return message.replace(/^error parsing regexp: /, '').replace(/\s+/g, ' ')
  }
}
