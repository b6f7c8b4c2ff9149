/** The operating system's user who runs this process. */
import os from 'node:os'

/** A user without an entry in the list of users has a number alone. */
export function systemUser(): string {
  try {
    return os.userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? '?'}`
  }
}
