/** Runs the programs of examples/ in their languages; what has to be compiled is, once for each test file. */
import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { cleanEnv } from './daemon.ts'

export const examplesDir = new URL('../../examples/', import.meta.url).pathname
/** Go compiles the same parts of its library each time. */
const goCache = new URL('../../node_modules/.cache/pipectl-go', import.meta.url).pathname
const run = promisify(execFile)
/** Only ends what hangs. */
const compileMs = 300_000

export interface Compiled {
  /** The command for a file of examples/, or for any other with its complete path, by its extension. */
  commandOf(file: string): Promise<string[]>
  close(): void
}

export function openLanguages(): Compiled {
  const built = mkdtempSync(path.join(os.tmpdir(), 'pipectl-examples-'))
  const compiled = new Map<string, Promise<string[]>>()
  const compile = async (file: string): Promise<string[]> => {
    const program = path.join(built, file.replaceAll(/\W/g, '-'))
    const source = path.resolve(examplesDir, file)
    if (file.endsWith('.c')) {
      const flags = ['-std=gnu11', '-O2', '-Wall', '-Wextra', '-Werror']
      await run('gcc', [...flags, '-o', program, source], { timeout: compileMs })
    } else {
      // Without a network: its standard library is all it has.
      const env = cleanEnv({ GOCACHE: goCache, GOFLAGS: '-mod=mod', GOPROXY: 'off' })
      await run('go', ['vet', source], { env, timeout: compileMs })
      await run('go', ['build', '-o', program, source], { env, timeout: compileMs })
    }
    return [program]
  }
  return {
    commandOf: async (file) => {
      const source = path.resolve(examplesDir, file)
      const interpreter = { '.sh': 'sh', '.mjs': process.execPath, '.py': 'python3', '.php': 'php' }[
        path.extname(file)
      ]
      if (interpreter !== undefined) return [interpreter, source]
      const command = compiled.get(file) ?? compile(file)
      compiled.set(file, command)
      return await command
    },
    close: () => rmSync(built, { recursive: true, force: true }),
  }
}

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** Until it ends. */
export function runProgram(
  command: readonly string[],
  input: string,
  env: Record<string, string>,
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const [program = '', ...args] = command
    const child = spawn(program, args, { env: cleanEnv({ PYTHONDONTWRITEBYTECODE: '1', ...env }) })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, stdout, stderr }))
    // It may end without reading all of it.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
  })
}
