/** Checks the files that can be derived from the segments: the high-water mark and the lookup of idempotency keys. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { errorCode } from '../../platform/error-code.ts'
import { decodeMark } from './high-water.ts'

export interface MarkCheck {
  /** The newest acknowledged seq; null when the mark does not say. */
  seq: number | null
  oldestKeptSeq: number | null
  dataDirId: string | null
  problem: string | null
}

export function checkMark(file: string): MarkCheck {
  const unknown = { seq: null, oldestKeptSeq: null, dataDirId: null }
  if (!existsSync(file)) return { ...unknown, problem: 'does not exist' }
  try {
    const mark = decodeMark(readFileSync(file))
    if (mark === null) return { ...unknown, problem: 'is damaged' }
    const { seq, oldestKeptSeq, identity } = mark
    return { seq, oldestKeptSeq, dataDirId: identity?.dataDirId ?? null, problem: null }
  } catch (error) {
    return { ...unknown, problem: `cannot be read (${errorCode(error) ?? error})` }
  }
}

/** Returns the problem, or null when there is none. A missing file is no problem. */
export function checkIdempotencyKeys(file: string): string | null {
  if (!existsSync(file)) return null
  let db: Database.Database | null = null
  try {
    if (!statSync(file).isFile()) return 'is not a file'
    db = new Database(file, { readonly: true, fileMustExist: true, timeout: 10_000 })
    const said = db.prepare<[], string>('PRAGMA integrity_check(1)').pluck().get()
    if (said !== 'ok') return `its structure is damaged: ${said?.replaceAll(/\s+/g, ' ')}`
    // An intact database can still be a file of another program.
    db.prepare('SELECT count(*) FROM derived').get()
    db.prepare('SELECT 1 FROM held LIMIT 1').get()
    return null
  } catch (error) {
    return `cannot be read: ${error instanceof Error ? error.message : String(error)}`
  } finally {
    db?.close()
  }
}
