/**
 * Records the part of the contract that the tests have seen: every response of a real daemon is noted as `method path
 * status code`, one line each, in a file of this process. `test/run-files.ts` reads them all after the fast tier and
 * fails when an operation or an error code was never exercised. Test files run in parallel, so only the directory is
 * shared. The operation of a path is looked up there: the contract's schemas would cost each test file a second of
 * CPU.
 */
import { appendFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** Under `.tap/`, which git ignores; another directory by PIPECTL_TEST_OBSERVED. */
export const observedDir =
  process.env.PIPECTL_TEST_OBSERVED ?? fileURLToPath(new URL('../../.tap/observed', import.meta.url))

const seen = new Set<string>()

const ids = /\/[0-9a-f]{8}-[0-9a-f-]{27}(?=\/|$)/g

/** Notes one response. `code` is the body's `error`. An id in the path becomes `*`, so that a line is noted once. */
export function observe(method: string, pathname: string, status: number, code?: unknown): void {
  const place = pathname.replace(ids, '/*').replace(/\s/g, '_')
  const line = `${method} ${place} ${status} ${typeof code === 'string' ? code : '-'}`
  if (seen.has(line)) return
  if (seen.size === 0) mkdirSync(observedDir, { recursive: true })
  seen.add(line)
  appendFileSync(path.join(observedDir, `${process.pid}-${startedMs}.txt`), `${line}\n`)
}
// A process id may come back in one long run; together with the time it does not.
const startedMs = Date.now()
