/** The operating system's user that runs this process. */
import os from 'node:os'

/** The user's name, or only its id when the system has no name for it. */
export function systemUser(): string {
  try {
    return os.userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? '?'}`
  }
}
