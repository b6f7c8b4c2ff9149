/**
 * The file `replica.json` in the data directory: which writer of the replica this directory is. Whoever creates the next slot
 * owns the log in the bucket, and each slot names its writer. Backups do not contain the file, and a restore
 * writes a new id, so two directories never write under one id.
 *
 *   joining a log in the bucket                     found after a crash right after it
 *   1 write the file: a new id, `after` the slot    the newest slot is still the one of `after`: as after 1
 *     behind which the first own slot comes
 *   2 create that slot (`If-None-Match: *`)         the newest slot has this id: 3
 *   3 write the file without `after`                normal
 *
 * If another writer creates a slot between 1 and 2, 2 fails and nothing of this directory is in the bucket.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { isObject } from '../contract/is-object.ts'
import { ConfigError } from '../platform/config-error.ts'
import { errorCode } from '../platform/error-code.ts'
import { fsyncDirectory, fsyncFile } from '../platform/fsync.ts'

export interface WriterFile {
  /** Bucket, prefix and endpoint, as `targetName` writes them. */
  target: string
  writerId: string
  /** 1 for the first writer of a prefix. Each takeover adds 1. */
  generation: number
  /** This writer has no slot yet: its first one follows this one. Slot 0: the prefix is empty. */
  after: { slot: number; checksum: string } | null
}

export const writerFileName = 'replica.json'

/** Null: the directory has never been a writer. Throws ConfigError if the file is not readable. */
export function readWriterFile(root: string): WriterFile | null {
  const file = path.join(root, writerFileName)
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  }
  const found = parsed(text)
  if (found !== null) return found
  throw new ConfigError(
    `replica.url: ${file} is damaged; put back the file, or remove it and use another prefix for replica.url`,
  )
}

/** Durable when it returns. */
export function writeWriterFile(root: string, content: WriterFile): void {
  const file = path.join(root, writerFileName)
  const temporary = `${file}.tmp`
  writeFileSync(temporary, `${JSON.stringify(content)}\n`, { mode: 0o600 })
  fsyncFile(temporary)
  renameSync(temporary, file)
  fsyncDirectory(root)
}

function parsed(text: string): WriterFile | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (!isObject(value)) return null
  const { target, writerId, generation, after } = value
  if (typeof target !== 'string' || typeof writerId !== 'string') return null
  if (!Number.isSafeInteger(generation) || !isAfter(after)) return null
  return { target, writerId, generation: Number(generation), after }
}

function isAfter(value: unknown): value is WriterFile['after'] {
  if (value === null) return true
  return isObject(value) && Number.isSafeInteger(value.slot) && typeof value.checksum === 'string'
}
