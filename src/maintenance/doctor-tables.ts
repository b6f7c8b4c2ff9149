/** The check of the files of SQLite destinations in `pipectl doctor`. It opens none of them. */
import { accessSync, constants, statSync } from 'node:fs'
import { listTableFiles, type TableFile, tablesDirOf } from '../destinations/sqlite/files.ts'
import { bytes, counted } from '../platform/quantities.ts'
import { type Check, checkNamed } from './check.ts'

/** A WAL of this size was not reset for a long time. It has 4 MiB while no reader keeps an old snapshot. */
const largeWalBytes = 256 * 1024 * 1024

/** No checks if there are no such files. */
export function tablesChecks(root: string): Check[] {
  const files = listTableFiles(tablesDirOf(root))
  if (files.length === 0) return []
  const check = checkNamed('SQLite files')
  const total = files.reduce((sum, file) => sum + sizeOf(file.path) + walBytes(file), 0)
  const size = `${counted(files.length, 'file')}, ${bytes(total)}`
  const locked = files.find(({ path }) => !isWritable(path))
  if (locked !== undefined) {
    const next = 'give it to the user of the daemon, and run doctor as that user'
    return [check.fail(`${size}: ${locked.path} cannot be written`, next)]
  }
  const large = files.find((file) => walBytes(file) > largeWalBytes)
  if (large === undefined) return [check.ok(size)]
  const next = 'end the program that keeps a transaction on the file open'
  return [check.warn(`${size}: ${large.path}-wal has ${bytes(walBytes(large))}`, next)]
}

function walBytes({ path }: TableFile): number {
  return sizeOf(`${path}-wal`)
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}

function isWritable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK | constants.W_OK)
    return true
  } catch {
    return false
  }
}
