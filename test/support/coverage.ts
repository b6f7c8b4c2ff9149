/**
 * What the tests have seen of the contract: every answer of a real daemon is noted as `operationId status code`, one
 * line each, in a file of this process. `test/check-coverage.ts` reads them all once tap is done and fails when an
 * operation or an error code was never exercised. Test files run in parallel, so nothing is shared but the directory.
 */
import { appendFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { operationTable } from '../../src/contract/operations.ts'

/** Under `.tap/`, which git ignores; another directory by PIPECTL_TEST_OBSERVED. */
export const observedDir =
  process.env.PIPECTL_TEST_OBSERVED ?? fileURLToPath(new URL('../../.tap/observed', import.meta.url))

const seen = new Set<string>()

/** Notes one answer. `code` is the body's `error`; a path that is no operation is noted as `-`. */
export function observe(method: string, pathname: string, status: number, code?: unknown): void {
  const line = `${operationAt(method, pathname) ?? '-'} ${status} ${typeof code === 'string' ? code : '-'}`
  if (seen.has(line)) return
  if (seen.size === 0) mkdirSync(observedDir, { recursive: true })
  seen.add(line)
  appendFileSync(path.join(observedDir, `${process.pid}-${startedMs}.txt`), `${line}\n`)
}
// A process id may come back in one long run; together with the time it does not.
const startedMs = Date.now()

/** The operation a request was for; a literal segment wins over a parameter. */
export function operationAt(method: string, pathname: string): string | null {
  const segments = pathname.split('/')
  let best: { operationId: string; parameters: number } | null = null
  for (const operation of operationTable) {
    const pattern = operation.path.split('/')
    if (operation.method !== method || pattern.length !== segments.length) continue
    const fits = pattern.every((part, index) => part.startsWith('{') || part === segments[index])
    const parameters = pattern.filter((part) => part.startsWith('{')).length
    if (fits && (best === null || parameters < best.parameters))
      best = { operationId: operation.operationId, parameters }
  }
  return best?.operationId ?? null
}

export interface Observation {
  /** `-` for a path that is no operation. */
  operationId: string
  status: number
  /** `-` for an answer without an error body. */
  code: string
}

/** Everything noted by all processes of a run. */
export function readObservations(directory = observedDir): Observation[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.txt'))
    .flatMap((name) => readFileSync(path.join(directory, name), 'utf8').trim().split('\n'))
    .map((line) => {
      const [operationId = '-', status = '0', code = '-'] = line.split(' ')
      return { operationId, status: Number(status), code }
    })
}
