/**
 * Searches the files of the log for records to delete: segments, including the one being written, and quarantined files.
 * It changes nothing except that `removeQuarantined` removes files.
 *
 * Rows are read in slices. A segment can be replaced between two slices: rows keep their seqs, so the search continues in the
 * new file.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import type Database from 'better-sqlite3'
import { fsyncDirectory } from '../../platform/fsync.ts'
import { eraseRecords } from '../erased-body.ts'
import { type ErasureRequest, type FoundRecord, isCandidate, matches } from '../erasure.ts'
import { records } from '../record-text.ts'
import { erasedRow, holdsValues } from './erasing.ts'
import { bodyOf, listSegments, type MessageRow, type SegmentName, selectMessages } from './layout.ts'
import { openPageFile } from './page-file.ts'
import { findHead, findMessages } from './recover-rows.ts'
import { openReadOnly, requireKnownFormat } from './segment-file.ts'
import { isGone } from './sqlite-errors.ts'

export interface SearchSpec {
  /** Name of the feed, for reports of damage. */
  channel: string
  dir: string
  quarantineDir: string
  request: ErasureRequest & { throughSeq: number }
}

/** The records of a segment found in one slice, and where the next slice begins; null at the end of the segment. */
export interface FoundPage {
  found: FoundRecord[]
  nextSeq: number | null
}

/** The messages found in one slice that a deletion changes. */
export interface FoundRows {
  seqs: number[]
  records: number
  nextSeq: number | null
}

const sliceBytes = 1024 * 1024
/** A row without a body costs as much as this. */
const rowBytes = 200
const maxFound = 1_000

/** The segments that can hold messages up to the last seq, oldest first. */
export function segmentsThrough(dir: string, throughSeq: number): number[] {
  return listSegments(dir)
    .map(({ firstSeq }) => firstSeq)
    .filter((firstSeq) => firstSeq <= throughSeq)
}

/** One slice. A segment that is gone has nothing. */
export function findPage(spec: SearchSpec, firstSeq: number, fromSeq: number): FoundPage {
  const { conditions } = spec.request
  const page: FoundPage = { found: [], nextSeq: null }
  const slice = readSlice(spec, firstSeq, fromSeq, (row, pipeId) => {
    const body = bodyOf(row)
    if (!conditions.every((condition) => isCandidate(body, condition))) return true
    let recordIndex = -1
    for (const record of records(body)) {
      recordIndex += 1
      if (record.length > 0 && matches(record, conditions))
        page.found.push({ pipeId, msgId: row[2], streamSeq: row[0], recordIndex })
    }
    return page.found.length < maxFound
  })
  page.nextSeq = slice === null ? null : slice.nextSeq
  return page
}

/** One slice. Null: the segment is gone. Throws when it is damaged. */
export function findRows(spec: SearchSpec, firstSeq: number, fromSeq: number): FoundRows | null {
  const found: FoundRows = { seqs: [], records: 0, nextSeq: null }
  const slice = readSlice(spec, firstSeq, fromSeq, (row, pipeId) => {
    const erased = erasedRow(row, pipeId, spec.request.conditions)
    if (erased === null) return true
    found.seqs.push(row[0])
    found.records += erased.records
    return true
  })
  return slice && { ...found, nextSeq: slice.nextSeq }
}

/** Reads rows of the pipes until `look` returns false or the slice is full. Null: the segment is gone. */
function readSlice(
  { dir, request }: SearchSpec,
  firstSeq: number,
  fromSeq: number,
  look: (row: MessageRow, pipeId: string) => boolean,
): { nextSeq: number | null } | null {
  const name = listSegments(dir).find((one) => one.firstSeq === firstSeq)
  const db = name === undefined ? null : openIfThere(dir, name)
  if (db === null) return null
  try {
    requireKnownFormat(db)
    let bytes = 0
    for (const { row, pipeId } of rowsOf(db, request, fromSeq)) {
      bytes += bodyOf(row).length + rowBytes
      if (!look(row, pipeId) || bytes >= sliceBytes) return { nextSeq: row[0] + 1 }
    }
    return { nextSeq: null }
  } finally {
    db.close()
  }
}

/** It can be unlinked between the listing and the opening. */
function openIfThere(dir: string, name: SegmentName): Database.Database | null {
  try {
    return openReadOnly(dir, name)
  } catch (error) {
    if (isGone(error)) return null
    throw error
  }
}

/** In the order of seqs. Bodies of other pipes are not read. */
function* rowsOf(
  db: Database.Database,
  { pipeIds, throughSeq }: SearchSpec['request'],
  fromSeq: number,
): Generator<{ row: MessageRow; pipeId: string }> {
  const meant = new Set(pipeIds)
  const all = db.prepare('SELECT no, pipe_id FROM pipe NOT INDEXED').raw().all() as [number, string][]
  const byNo = new Map(all.filter(([, pipeId]) => meant.has(pipeId)))
  if (byNo.size === 0) return
  const numbers = JSON.stringify([...byNo.keys()])
  const where = 'pipe IN (SELECT value FROM json_each(?)) AND seq >= ? AND seq <= ?'
  const rows = db.prepare(`${selectMessages('message NOT INDEXED')} WHERE ${where} ORDER BY seq`).raw()
  for (const row of rows.iterate(numbers, fromSeq, throughSeq) as IterableIterator<MessageRow>)
    yield { row, pipeId: byNo.get(row[1])! }
}

/**
 * Removes quarantined files with a match: the body of a damaged message, or a damaged segment. They cannot be rewritten,
 * because where their records are is uncertain. What could be read of a damaged segment is in the log already. Returns the
 * number of files. The `.json` that describes a message stays: it has no record, and prevents that it is quarantined again.
 */
export function* removeQuarantined({ quarantineDir, request }: SearchSpec): Generator<number> {
  for (const file of bodiesIn(quarantineDir)) {
    if (isQuarantinedMatch(file, request)) yield remove([file])
    else yield 0
  }
  const segments = path.join(quarantineDir, 'segments')
  for (const files of segmentFilesIn(segments)) {
    if (isSegmentMatch(files, request)) yield remove(files)
    else yield 0
  }
}

function remove(files: readonly string[]): number {
  for (const file of files) rmSync(file, { force: true })
  fsyncDirectory(path.dirname(files[0]!))
  return files.length
}

function namesIn(dir: string): string[] {
  return existsSync(dir) ? readdirSync(dir) : []
}

function bodiesIn(dir: string): string[] {
  return namesIn(dir)
    .filter((name) => name.endsWith('.body'))
    .map((name) => path.join(dir, name))
}

function isQuarantinedMatch(file: string, { pipeIds, conditions }: ErasureRequest): boolean {
  const description = file.replace(/\.body$/, '.json')
  // A crash can leave a body without its description: then it can be of any pipe.
  const pipeId = existsSync(description) ? pipeIdIn(readFileSync(description, 'utf8')) : null
  if (pipeId !== null && !pipeIds.includes(pipeId)) return false
  const body = readFileSync(file)
  return holdsValues(body, conditions) || isReadableMatch(body, conditions)
}

function pipeIdIn(json: string): string | null {
  return /"pipe_id": "([^"]+)"/.exec(json)?.[1] ?? null
}

/** The bytes are damaged, so parts of them may not be JSON. */
function isReadableMatch(body: Buffer, conditions: ErasureRequest['conditions']): boolean {
  return eraseRecords(body, (record) => isJson(record) && matches(record, conditions)) !== null
}

function isJson(record: Buffer): boolean {
  try {
    JSON.parse(record.toString('utf8'))
    return true
  } catch {
    return false
  }
}

/** Each segment file with its WAL. */
function segmentFilesIn(dir: string): string[][] {
  const names = namesIn(dir)
  const bases = names.filter((name) => /\.db(-\d+)?$/.test(name))
  const wals = names.filter((name) => /\.db-wal(-\d+)?$/.test(name))
  const walOf = (base: string) => base.replace(/\.db/, '.db-wal')
  const alone = wals.filter((wal) => !bases.some((base) => walOf(base) === wal))
  const groups = bases.map((base) => [base, ...wals.filter((wal) => wal === walOf(base))])
  return [...groups, ...alone.map((wal) => [wal])].map((group) => group.map((name) => path.join(dir, name)))
}

/** Searched byte by byte; and by its readable messages, whose values can be written with escapes or span two pages. */
function isSegmentMatch(files: readonly string[], request: ErasureRequest): boolean {
  const { pipeIds, conditions } = request
  const bytes = Buffer.concat(files.map((file) => readFileSync(file)))
  if (!pipeIds.some((pipeId) => bytes.includes(pipeId))) return false
  if (holdsValues(bytes, conditions)) return true
  const [file] = files
  return file !== undefined && !/-wal/.test(file) && hasReadableMatch(file, request)
}

function hasReadableMatch(file: string, { pipeIds, conditions }: ErasureRequest): boolean {
  const pages = openPageFile(file)
  try {
    const search = findHead(pages)
    let step = search.next()
    while (step.done !== true) step = search.next()
    const everything = { firstSeq: 0, lastSeq: Number.MAX_SAFE_INTEGER }
    for (const message of findMessages(pages, step.value, everything, new Set(pipeIds))) {
      if (message !== null && isReadableMatch(message.body, conditions)) return true
    }
    return false
  } finally {
    pages.close()
  }
}
