/**
 * The data directory of a database server, as its own tools make it: once for all test files, which get copies with owners and
 * modes. initdb takes a second of CPU, a copy a tenth of it.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const cache = fileURLToPath(new URL('../../node_modules/.cache/pipectl-servers/', import.meta.url))

/** `name`: all that `make` depends on. It makes `directory`. */
export function madeOnce(name: string, directory: string, make: () => void): void {
  const template = path.join(cache, name.replaceAll(/[^\w.]+/g, '-'))
  if (existsSync(template)) {
    copy(path.join(template, 'data'), directory)
    return
  }
  make()
  mkdirSync(cache, { recursive: true })
  const making = mkdtempSync(path.join(cache, 'making-'))
  copy(directory, path.join(making, 'data'))
  // Test files run side by side: the first that has made one gives it its name.
  try {
    renameSync(making, template)
  } catch (error) {
    if (!existsSync(template)) throw error
    rmSync(making, { recursive: true })
  }
}

function copy(from: string, to: string): void {
  execFileSync('cp', ['-a', from, to])
}
