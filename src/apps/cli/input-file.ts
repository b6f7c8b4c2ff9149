/** Reads files that an option names. */

import { readFileSync } from 'node:fs'
import { errorCode } from '../../platform/error-code.ts'
import { usageFailure } from '../client/failure.ts'
import { io } from './io.ts'

/** The words for the message if the file cannot be read. */
interface Named {
  /** With the option, for example `--secret-file key.txt`. */
  name: string
  hint: string
}

/** Returns the content; `-` is stdin. Throws Failure (usage). */
export function readFileOrStdin(file: string, named: Named): string {
  return orFailure(named, () => (file === '-' ? io().readStdin() : readFileSync(file, 'utf8')))
}

/** Returns the content. Throws Failure (usage). */
export function readTextFile(file: string, named: Named): string {
  return orFailure(named, () => readFileSync(file, 'utf8'))
}

function orFailure({ name, hint }: Named, read: () => string): string {
  try {
    return read()
  } catch (error) {
    const code = errorCode(error) ?? String(error)
    throw usageFailure(`${name} cannot be read (${code})`, hint, error)
  }
}
