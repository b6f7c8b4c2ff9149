/** Reads what coverage.ts has noted, and finds the operation of each request. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { operationTable } from '../../src/contract/operations.ts'
import { observedDir } from './coverage.ts'

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
  /** `-` for a response without an error body. */
  code: string
}

/** Everything noted by all processes of a run. */
export function readObservations(directory = observedDir): Observation[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.txt'))
    .flatMap((name) => readFileSync(path.join(directory, name), 'utf8').trim().split('\n'))
    .map((line) => {
      const [method = '', pathname = '', status = '0', code = '-'] = line.split(' ')
      return { operationId: operationAt(method, pathname) ?? '-', status: Number(status), code }
    })
}
