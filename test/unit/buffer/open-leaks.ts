/**
 * A program for open-leaks.test.ts: opens a buffer once for each call that opening makes, with a fault at that call, and
 * prints which files below the directory it still had open afterwards. Arguments: base, directory for copies, the file
 * for plans, the fault.
 */
import { cpSync, readdirSync, readlinkSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { openBufferWriter } from '../../../src/log/segments/buffer-writer.ts'
import { openLog } from '../../../src/platform/log.ts'
import { type Plan, planText } from '../../support/faults/library.ts'
import { KiB, quiet, specAt } from './open.ts'

export interface OpenAttempt {
  at: number
  /** Null: it was opened, and closed. */
  error: string | null
  openFiles: string[]
}

const [base, directory, controlFile, fault] = process.argv.slice(2) as [string, string, string, string]
const events = {
  onCommitted: () => {},
  onDropped: () => {},
  onErased: () => {},
  onReportWanted: () => {},
  onSlice: () => {},
}
const most = 2_000

function plan(next: Plan | null): void {
  writeFileSync(`${controlFile}.new`, planText(next))
  renameSync(`${controlFile}.new`, controlFile)
}

function openFiles(root: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const file = readlinkSync(`/proc/self/fd/${fd}`)
      return file.startsWith(root) ? [path.relative(root, file)] : []
    } catch {
      // The descriptor of the listing itself.
      return []
    }
  })
}

function attempt(at: number): OpenAttempt {
  const root = path.join(directory, String(at))
  cpSync(base, root, { recursive: true })
  plan({ at, ...(JSON.parse(fault) as Omit<Plan, 'at'>) })
  let error: string | null = null
  try {
    const spec = specAt(root, { segmentMaxBytes: 64 * KiB })
    const writer = openBufferWriter(spec, openLog(quiet, 'test'), events)
    plan(null)
    writer.close()
  } catch (thrown) {
    error = String(thrown)
  }
  plan(null)
  const left = openFiles(root)
  rmSync(root, { recursive: true, force: true })
  return { at, error, openFiles: left }
}

const attempts: OpenAttempt[] = []
// Past the last call nothing fails any more; a fault that does no harm is no sign of that. Every second call is enough: most
// come in pairs.
for (let at = 1, sound = 0; at < most && sound < 15; at += 2) {
  const result = attempt(at)
  sound = result.error === null ? sound + 1 : 0
  attempts.push(result)
}
process.stdout.write(JSON.stringify(attempts))
