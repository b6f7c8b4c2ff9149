import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** SHA-256 of every file, by path, except for those that SQLite keeps beside one that is read. */
export function contentOf(directory: string): Record<string, string> {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
  return Object.fromEntries(
    files
      .filter(({ name }) => !/-(wal|shm)$/.test(name))
      .map(({ parentPath, name }) => path.join(parentPath, name))
      .map((file) => [file, createHash('sha256').update(readFileSync(file)).digest('hex')]),
  )
}
