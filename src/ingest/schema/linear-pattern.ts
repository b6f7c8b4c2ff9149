/**
 * The patterns of schemas, evaluated by RE2 in time linear in the text. JavaScript's RegExp backtracks: one pattern
 * could block a thread indefinitely. Loaded with the first schema that has a pattern.
 *
 * A pattern of 500 characters can compile to 44,000 instructions (70 ms), and cache 8 MiB of states. So the
 * instructions are limited when a schema is set, and memory here: this many compiled patterns of all pipes are kept,
 * each with this many bytes of states.
 */
import { RE2JS } from 're2js'
import type { PatternFault } from '../../contract/record-schema.ts'
import type { PatternTest, Run } from './run.ts'

/** The instructions of one pattern, and of all patterns of a schema. */
const maxInstructions = 1_000
const maxSchemaInstructions = 5_000
const keptPatterns = 200
const keptStates = 1024 * 1024
/** Compilation takes 2 to 7 µs per instruction, a step 10 ns. */
const compileSteps = 500

/** Compiled patterns of this thread, oldest first. */
const compiled = new Set<Pattern>()

class Pattern {
  readonly #pattern: string
  #engine: RE2JS | null = null
  /** Steps per character: without cached states, every instruction can be visited for each one. */
  #cost = 1

  constructor(pattern: string) {
    this.#pattern = pattern
  }

  isFound(text: string, run: Run): boolean {
    const engine = this.#engine ?? this.#compile(run)
    run.spend(this.#cost * (text.length + 1))
    const isFound = engine.test(text)
    dropStates(engine)
    return isFound
  }

  #compile(run: Run): RE2JS {
    const engine = RE2JS.compile(RE2JS.translateRegExp(this.#pattern))
    const instructions = engine.programSize()
    this.#engine = engine
    this.#cost = Math.ceil(instructions / 2)
    compiled.add(this)
    const [oldest] = compiled
    if (compiled.size > keptPatterns && oldest !== undefined) {
      oldest.#engine = null
      compiled.delete(oldest)
    }
    run.spend(compileSteps * instructions)
    return engine
  }
}

/** The engine has no limit of its own for the states that it caches. */
function dropStates(engine: RE2JS): void {
  const re2: { lazyDFA?: { stateCount: number } | null } = engine.re2()
  const states = re2.lazyDFA?.stateCount ?? 0
  if (states * (200 + 24 * engine.programSize()) > keptStates) re2.lazyDFA = null
}

export function linearPattern(text: string): PatternTest {
  const pattern = new Pattern(text)
  return (value, run) => pattern.isFound(value, run)
}

/**
 * Verifies the patterns of one schema. After the first fault none is compiled, because a pattern that is too large
 * takes as long as many others.
 */
export function patternVerifier(): PatternFault {
  let left = maxSchemaInstructions
  let hasFault = false
  return (pattern) => {
    if (hasFault) return null
    const fault = faultOf(pattern, left)
    hasFault = typeof fault === 'string'
    if (typeof fault === 'number') left -= fault
    return typeof fault === 'string' ? fault : null
  }
}

/** Returns the number of instructions of a valid pattern, or its fault on one line. */
function faultOf(pattern: string, left: number): string | number {
  try {
    const instructions = RE2JS.compile(RE2JS.translateRegExp(pattern)).programSize()
    if (instructions > maxInstructions)
      return `compiles to ${instructions} instructions, at most ${maxInstructions} are allowed: repeat less`
    if (instructions > left)
      return `the patterns of a schema can have at most ${maxSchemaInstructions} instructions together`
    return instructions
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return message.replace(/^error parsing regexp: /, '').replace(/\s+/g, ' ')
  }
}
