/** SQLite before 3.51.3 can lose a commit when a WAL is reset while another connection writes (its "WAL-reset bug"). */
import Database from 'better-sqlite3'

const oldest = [3, 51, 3]

/** Throws when the SQLite in use, which a rebuilt better-sqlite3 can change, is too old to be trusted with data. */
export function requireSoundSqlite(version = loadedVersion()): void {
  const parts = version.split('.').map(Number)
  const at = oldest.findIndex((part, index) => (parts[index] ?? 0) !== part)
  if (at < 0 || (parts[at] ?? 0) > oldest[at]!) return
  throw new Error(
    `SQLite ${version} can lose committed data; at least ${oldest.join('.')} is needed. Install the better-sqlite3 of package.json (npm ci), without a system SQLite.`,
  )
}

function loadedVersion(): string {
  const db = new Database(':memory:')
  try {
    return db.prepare('SELECT sqlite_version()').pluck().get() as string
  } finally {
    db.close()
  }
}
