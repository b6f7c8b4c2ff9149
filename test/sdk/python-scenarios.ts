/** Runs the programs of test/sdk/python/scenarios.py with the package of this checkout. */
import { type ChildProcess, spawn } from 'node:child_process'
import { cleanEnv } from '../support/daemon.ts'
import { programFile } from '../support/programs.ts'

const scenarios = new URL('../../test/sdk/python/scenarios.py', import.meta.url).pathname
export const packageDir = new URL('../../sdk/python/', import.meta.url).pathname

export interface Ended {
  code: number | string | null
  stdout: string
  stderr: string
}

export interface Report {
  stats: { stored: number; dropped: number; pending: number; failed_attempts: number }
  dropped: [records: unknown[], reason: string, code: string | null][]
  errors: string[]
  left?: number
  [more: string]: unknown
}

interface Watch {
  onLine?: (line: string, child: ChildProcess) => void
}

/** Until it ends. The last argument can watch its lines. */
export function runScenario(
  env: Record<string, string>,
  name: string,
  ...rest: (string | Watch)[]
): Promise<Ended> {
  const args = rest.filter((one) => typeof one === 'string')
  const watch = rest.find((one) => typeof one !== 'string')
  const child = spawn(programFile('python3'), [scenarios, name, ...args], {
    env: cleanEnv({ PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: packageDir, ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return new Promise((resolve, reject) => {
    let stdout = ''
    let stderr = ''
    let read = 0
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      for (let end = stdout.indexOf('\n', read); end >= 0; end = stdout.indexOf('\n', read)) {
        watch?.onLine?.(stdout.slice(read, end), child)
        read = end + 1
      }
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code: code ?? signal, stdout, stderr }))
  })
}

/** The last line that the program has printed. Throws if it did not end with 0, or complained. */
export function reportOf({ code, stdout, stderr }: Ended): Report {
  if (code !== 0 || stderr !== '') throw new Error(`the program ended with ${code}: ${stderr}`)
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
}

export function numbersOf(records: readonly Record<string, unknown>[]): number[] {
  return records.map(({ n }) => Number(n))
}

export function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, index) => first + index)
}
