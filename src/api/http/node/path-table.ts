/** Finds the served path that matches the path of a request. */
import type { ServedPath } from '../engine.ts'

export interface FoundPath {
  served: ServedPath
  /** The parameters by name, as in the path, not decoded. */
  params: Readonly<Record<string, string>>
}

interface Pattern {
  served: ServedPath
  segments: readonly string[]
}

const noParams = {}

export class PathTable {
  readonly #literal = new Map<string, FoundPath>()
  /** The paths with parameters, by their number of segments, in the order in which they are tried. */
  readonly #patterns = new Map<number, Pattern[]>()
  /** The prefixes of paths, the longest first. */
  #prefixes: { prefix: string; found: FoundPath }[] = []

  constructor(paths: readonly ServedPath[]) {
    for (const served of paths) {
      if (served.path.endsWith('/*')) {
        this.#prefixes.push({ prefix: served.path.slice(0, -1), found: { served, params: noParams } })
        this.#prefixes.sort((a, b) => b.prefix.length - a.prefix.length)
        continue
      }
      if (!served.path.includes('{')) {
        this.#literal.set(served.path, { served, params: noParams })
        continue
      }
      const segments = served.path.split('/')
      const alike = this.#patterns.get(segments.length) ?? []
      this.#patterns.set(segments.length, [...alike, { served, segments }].sort(literalFirst))
    }
  }

  find(path: string): FoundPath | null {
    const literal = this.#literal.get(path)
    if (literal !== undefined) return literal
    const given = path.split('/')
    for (const { served, segments } of this.#patterns.get(given.length) ?? []) {
      const params = paramsOf(segments, given)
      if (params !== null) return { served, params }
    }
    return this.#prefixes.find(({ prefix }) => path.startsWith(prefix))?.found ?? null
  }
}

/** Null if the path does not match. An empty segment is not a parameter. */
function paramsOf(segments: readonly string[], given: readonly string[]): Record<string, string> | null {
  const params: Record<string, string> = {}
  for (const [index, segment] of segments.entries()) {
    const text = given[index]!
    if (!isParam(segment)) {
      if (segment !== text) return null
    } else if (text === '') return null
    else params[segment.slice(1, -1)] = text
  }
  return params
}

/** As in uWebSockets: at the first segment in which two patterns differ in kind, the literal one wins. */
function literalFirst(a: Pattern, b: Pattern): number {
  for (const [index, segment] of a.segments.entries()) {
    const difference = Number(isParam(segment)) - Number(isParam(b.segments[index]!))
    if (difference !== 0) return difference
  }
  return 0
}

function isParam(segment: string): boolean {
  return segment.startsWith('{')
}
