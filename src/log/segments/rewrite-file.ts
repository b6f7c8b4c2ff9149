/**
 * The next generation of a segment while it is written, row by row in slices. Each slice is an fsynced transaction, so
 * there is no large fsync at the end. The file gets its name when it is complete and has been read back; the original
 * does not change until then. After a crash the file is written again from scratch, so it needs no journal.
 */
import { renameSync, rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { fsyncDirectory, fsyncFile } from '../../platform/fsync.ts'
import { pipeIndex, type SegmentName, segmentFile } from './layout.ts'
import { segmentSchema } from './segment-file.ts'

export class RewriteFile {
  readonly #file: string
  #db: Database.Database

  /** Throws errors of SQLite and the file system, after removing what it created. */
  constructor(file: string) {
    this.#file = file
    this.remove()
    this.#db = new Database(file)
    try {
      this.#db.pragma('journal_mode = OFF')
      this.#db.pragma('synchronous = FULL')
      this.#db.pragma('fullfsync = ON')
      this.slice(() => this.#db.exec(segmentSchema + pipeIndex))
    } catch (error) {
      this.remove()
      throw error
    }
  }

  get db(): Database.Database {
    return this.#db
  }

  /** Runs `write` as one slice. */
  slice(write: () => void): void {
    this.#db.exec('BEGIN')
    write()
    this.#db.exec('COMMIT')
  }

  /** Makes the file durable and reopens it for reading, so that the following reads come from the file. */
  readBack(): void {
    this.#db.close()
    fsyncFile(this.#file)
    this.#db = new Database(this.#file, { readonly: true, fileMustExist: true })
  }

  /** Gives the file its name, next to the original. */
  rename(dir: string, name: SegmentName): void {
    this.close()
    renameSync(this.#file, segmentFile(dir, name))
    fsyncDirectory(dir)
  }

  close(): void {
    this.#db?.close()
  }

  /** Removes the file if it exists. */
  remove(): void {
    this.close()
    for (const suffix of ['', '-journal']) rmSync(this.#file + suffix, { force: true })
  }
}
