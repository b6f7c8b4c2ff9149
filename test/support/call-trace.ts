/**
 * Which functions of the program a daemon calls, and in which order, its threads included. The functions are found in
 * the built files by their names: `prepare` of a function, `Acceptance.#append` of a method, `Scanner.constructor`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import ts from 'typescript'
import type { TracedCall } from './trace-calls.ts'

const root = new URL('../../', import.meta.url)

export interface NamedFunction {
  /** Below the repository: `src/ingest/accept.ts`. */
  file: string
  name: string
}

/** The bodies of the functions with this name, nested ones included. */
function bodiesOf(parsed: ts.SourceFile, name: string): ts.Block[] {
  const bodies: ts.Block[] = []
  const visit = (node: ts.Node, owner: string): void => {
    if (ts.isClassDeclaration(node)) owner = `${node.name?.text}.`
    const isFunction =
      ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isConstructorDeclaration(node)
    if (isFunction && node.body !== undefined) {
      const own = ts.isConstructorDeclaration(node) ? 'constructor' : node.name?.getText(parsed)
      if ((ts.isFunctionDeclaration(node) ? '' : owner) + own === name) bodies.push(node.body)
    }
    ts.forEachChild(node, (child) => visit(child, owner))
  }
  visit(parsed, '')
  return bodies
}

function parse(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(new URL(file, root), 'utf8'), ts.ScriptTarget.Latest, true)
}

/** Throws when the file has no such function, or several. */
function bodyOf(parsed: ts.SourceFile, { file, name }: NamedFunction): ts.Block {
  const [body, ...others] = bodiesOf(parsed, name)
  if (body === undefined || others.length > 0) throw new Error(`${file} has ${others.length || 'no'} ${name}`)
  return body
}

/** Its lines in the source, signature included. */
export function linesOf(one: NamedFunction): number {
  const parsed = parse(one.file)
  const { parent } = bodyOf(parsed, one)
  const lineAt = (position: number) => parsed.getLineAndCharacterOfPosition(position).line
  return lineAt(parent.getEnd()) - lineAt(parent.getStart(parsed)) + 1
}

function tracedCall(one: NamedFunction): TracedCall {
  const built = one.file.replace(/^src\/(.+)\.ts$/, 'dist/$1.js')
  const parsed = parse(built)
  const [first] = bodyOf(parsed, { ...one, file: built }).statements
  if (first === undefined) throw new Error(`${one.name} of ${one.file} is empty`)
  const { line, character } = parsed.getLineAndCharacterOfPosition(first.getStart(parsed))
  return { url: new URL(built, root).href, lineNumber: line, columnNumber: character }
}

export interface CallTrace {
  /** The options to start the traced daemon with. A bundled program has other files than those that are traced. */
  options: { env: Record<string, string>; program: string }
  /** Forgets the calls so far. */
  clear(): void
  /** The functions that were called since, in the order of their calls. */
  calls(): NamedFunction[]
}

/** `dir` is for its two files. */
export function traceCalls(functions: readonly NamedFunction[], dir: string): CallTrace {
  const calls = path.join(dir, 'calls.json')
  const trace = path.join(dir, 'trace')
  writeFileSync(calls, JSON.stringify(functions.map(tracedCall)))
  writeFileSync(trace, '')
  let cleared = 0
  const hits = () => readFileSync(trace, 'utf8').split('\n').slice(0, -1)
  return {
    options: {
      program: new URL('bin/pipectl.js', root).pathname,
      env: {
        NODE_OPTIONS: `--import=${new URL('./trace-calls.ts', import.meta.url).href}`,
        TRACED_CALLS: calls,
        TRACE_OF_CALLS: trace,
      },
    },
    clear: () => {
      cleared = hits().length
    },
    calls: () =>
      hits()
        .slice(cleared)
        .map((index) => functions[Number(index)]!),
  }
}
