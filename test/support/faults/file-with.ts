/** Searches a directory byte by byte. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** The first file below the directory that contains the text; null when there is none. */
export function fileWith(root: string, text: string): string | null {
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    if (entry.isFile() && readFileSync(file).includes(text)) return file
  }
  return null
}
