/**
 * The next generation of a segment while it is being written: a file of its own, row by row in slices, each of them a
 * transaction that is fsynced, so that there is no large fsync at the end. It gets its name when it is complete and was
 * read back. The original stays as it is until then.
 *
 * It is begun again from nothing after a crash: so it needs no journal.
 */
import { renameSync, rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { fsyncDirectory, fsyncFile } from '../../platform/fsync.ts'
import { type SegmentName, segmentFile } from './layout.ts'
import { segmentSchema } from './segment-file.ts'

export class RewriteFile {
  readonly #file: string
  #db: Database.Database

  /** Throws what SQLite and the file system throw, and leaves nothing then. */
  constructor(file: string) {
    this.#file = file
    this.remove()
    this.#db = new Database(file)
    try {
      this.#db.pragma('journal_mode = OFF')
      this.#db.pragma('synchronous = FULL')
      this.#db.pragma('fullfsync = ON')
      this.slice(() => this.#db.exec(segmentSchema))
    } catch (error) {
      this.remove()
      throw error
    }
  }

  get db(): Database.Database {
    return this.#db
  }

  /** Everything that `write` does is one slice. */
  slice(write: () => void): void {
    this.#db.exec('BEGIN')
    write()
    this.#db.exec('COMMIT')
  }

  /** On disk, and open for reading: what is read now is what was written. */
  readBack(): void {
    this.#db.close()
    fsyncFile(this.#file)
    this.#db = new Database(this.#file, { readonly: true, fileMustExist: true })
  }

  /** It takes its place beside the original. */
  rename(dir: string, name: SegmentName): void {
    this.close()
    renameSync(this.#file, segmentFile(dir, name))
    fsyncDirectory(dir)
  }

  close(): void {
    this.#db?.close()
  }

  /** Also when it was never made. */
  remove(): void {
    this.close()
    for (const suffix of ['', '-journal']) rmSync(this.#file + suffix, { force: true })
  }
}
