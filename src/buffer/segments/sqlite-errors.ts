/**
 * Which failures the writer survives. A full disk is one: SQLite rolls the transaction back and says so. Everything
 * else from SQLite or the file system is not: after a failed write or fsync nothing the process believes about its
 * files can be trusted, so the error is left to end the process.
 */
export function isDiskFull(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'SQLITE_FULL' || code === 'ENOSPC' || code === 'EDQUOT'
}

/** The file is not a database, or its structure is broken. */
export function isCorrupt(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'SQLITE_NOTADB' || (code?.startsWith('SQLITE_CORRUPT') ?? false)
}

/** The file went away between listing and opening it. */
export function isGone(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'SQLITE_CANTOPEN' || code === 'ENOENT'
}

function codeOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}
