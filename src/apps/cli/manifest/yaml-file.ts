/**
 * A YAML (or JSON) file whose errors name the line. Used by `apply`, `diff` and the `-f` of `destinations`.
 *
 * `${NAME}` in a string is the environment variable NAME; `$${` is a literal `${`.
 */
import { isMap, isNode, isScalar, isSeq, LineCounter, parseDocument } from 'yaml'
import { type Failure, usageFailure } from '../../client/failure.ts'
import { readFileOrStdin } from '../input-file.ts'
import { io } from '../io.ts'

export type YamlPath = readonly (string | number)[]

export interface YamlFile {
  name: string
  value: unknown
  /** A Failure (usage) with the line of a path, or of the deepest part of it that exists. */
  fault(path: YamlPath, what: string, hint: string): Failure
  /**
   * The text at a path with its references replaced. Throws Failure with the line and the variable if one is not set.
   */
  expand(path: YamlPath, text: string): string
}

/**
 * Reads a file; `-` is stdin. References are read from `env`. Throws Failure (usage) with the line of the first
 * error.
 */
export function readYamlFile(file: string, env = io().env): YamlFile {
  const text = readFileOrStdin(file, { name: file, hint: 'name a file that can be read, or - for stdin' })
  return parseYaml(file === '-' ? 'stdin' : file, text, env)
}

function parseYaml(name: string, text: string, env: NodeJS.ProcessEnv): YamlFile {
  const counter = new LineCounter()
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false, uniqueKeys: true })
  const error = document.errors[0]
  if (error !== undefined) {
    throw faultAt(name, counter.linePos(error.pos[0]).line, error.message, 'correct the YAML')
  }
  const fault = (path: YamlPath, what: string, hint: string): Failure => {
    let node: unknown = document.contents
    let offset = offsetOf(node)
    for (const key of path) {
      const next = childOf(node, key)
      if (next === null) break
      node = next.value
      offset = next.offset
    }
    return faultAt(name, counter.linePos(offset).line, what, hint)
  }
  const expand = (path: YamlPath, reference: string): string =>
    reference.replace(referencePattern, (_, variable: string | undefined) => {
      if (variable === undefined) return '${'
      const value = env[variable]
      if (value !== undefined) return value
      const what = `the environment variable ${variable} is not set`
      throw fault(path, what, `set it: export ${variable}=…`)
    })
  return { name, value: document.toJS({ maxAliasCount: 100 }), fault, expand }
}

function faultAt(file: string, line: number, what: string, hint: string): Failure {
  return usageFailure(`${file}, line ${line}: ${what}`, hint)
}

/** Rejects keys that are not in `known`. The error names the first one and its line. */
export function rejectUnknownKeys(
  file: YamlFile,
  path: YamlPath,
  known: readonly string[],
  value: object,
): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    throw file.fault([...path, key], `unknown key ${JSON.stringify(key)}`, `known here: ${known.join(', ')}`)
  }
}

/** The variables that a text refers to. */
export function referencesIn(text: string): string[] {
  return [...text.matchAll(referencePattern)].flatMap((match) => (match[1] === undefined ? [] : [match[1]]))
}

const referencePattern = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

/** For a key of a map, the line is that of the key, which is where an author looks. */
function childOf(node: unknown, key: string | number): { value: unknown; offset: number } | null {
  if (isMap(node)) {
    const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(key))
    return pair === undefined ? null : { value: pair.value, offset: offsetOf(pair.key) }
  }
  if (isSeq(node) && typeof key === 'number') {
    const item = node.items[key]
    return item === undefined ? null : { value: item, offset: offsetOf(item) }
  }
  return null
}

function offsetOf(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0
}
