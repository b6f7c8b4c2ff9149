/**
 * Ranges of the log that are known to be lost. `repair` records them next to the quarantined files, so that `verify`
 * reports only new damage.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { SeqRange } from '../log/segments/segment-file.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'

export const knownLossesName = 'known-losses.json'

interface Entry {
  first_stream_seq: number
  last_stream_seq: number
  found_ts: string
}

/** If the file cannot be read, there are no known losses, and they are reported again. */
export function readKnownLosses(quarantineDir: string): SeqRange[] {
  return readEntries(quarantineDir).map((one) => ({
    firstSeq: one.first_stream_seq,
    lastSeq: one.last_stream_seq,
  }))
}

export function addKnownLosses(quarantineDir: string, ranges: readonly SeqRange[], nowMs: number): void {
  const found_ts = new Date(nowMs).toISOString()
  const added = ranges.map(({ firstSeq, lastSeq }) => ({
    first_stream_seq: firstSeq,
    last_stream_seq: lastSeq,
    found_ts,
  }))
  mkdirSync(quarantineDir, { recursive: true, mode: 0o700 })
  const file = path.join(quarantineDir, knownLossesName)
  const unfinished = `${file}.tmp`
  const entries = [...readEntries(quarantineDir), ...added]
  writeFileSync(unfinished, `${JSON.stringify(entries, null, 2)}\n`, { mode: 0o600 })
  fsyncFile(unfinished)
  renameSync(unfinished, file)
  fsyncDirectory(quarantineDir)
}

function readEntries(quarantineDir: string): Entry[] {
  const file = path.join(quarantineDir, knownLossesName)
  if (!existsSync(file)) return []
  try {
    const entries: unknown = JSON.parse(readFileSync(file, 'utf8'))
    return Array.isArray(entries) ? entries.filter(isEntry) : []
  } catch {
    return []
  }
}

function isEntry(value: unknown): value is Entry {
  if (typeof value !== 'object' || value === null) return false
  const { first_stream_seq: first, last_stream_seq: last } = value as Partial<Entry>
  return Number.isSafeInteger(first) && Number.isSafeInteger(last)
}
