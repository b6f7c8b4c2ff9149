/**
 * Compiles a program of this folder against dist/, for child processes that are started hundreds of times: starting
 * Node with a TypeScript loader takes three times as long. `npm run build` comes first.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const folder = fileURLToPath(new URL('.', import.meta.url))
const project = path.resolve(folder, '../../..')
const output = path.join(project, 'node_modules/.cache/pipectl-faults')

const files = new Map<string, string>()

/** The file to give to node. */
export function compiled(program: string): string {
  const file = files.get(program) ?? compile(program)
  files.set(program, file)
  return file
}

function compile(program: string): string {
  // In dist-test/ it is compiled.
  if (import.meta.url.endsWith('.js')) return path.join(folder, `${program}.js`)
  if (!existsSync(path.join(project, 'dist'))) throw new Error('there is no dist/: npm run build')
  mkdirSync(output, { recursive: true })
  const source = readFileSync(path.join(folder, `${program}.ts`), 'utf8')
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.ESNext,
      verbatimModuleSyntax: true,
    },
  })
  const code = outputText.replace(/from '(\.[^']+)\.ts'/g, (_, name: string) => {
    if (name.startsWith('./')) return `from '${compiled(name.slice(2))}'`
    const file = path.relative(path.join(project, 'src'), path.resolve(folder, name))
    return `from '${path.join(project, 'dist', file)}.js'`
  })
  const file = path.join(output, `${program}.mjs`)
  // Tests that run at the same time write the same.
  writeFileSync(`${file}.${process.pid}`, code)
  renameSync(`${file}.${process.pid}`, file)
  return file
}
