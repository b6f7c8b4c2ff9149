/** Makes files and their names survive a power cut. */
import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Makes renames and new files in the directory survive a power cut. */
export function fsyncDirectory(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

export function fsyncFile(file: string): void {
  const fd = openSync(file, 'r+')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
