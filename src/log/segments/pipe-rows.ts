/**
 * Finds the messages of one pipe in a segment.
 *
 * A segment that is being written has no index by pipe. Such an index is sorted by pipe, so a commit writes one page of
 * it for each pipe in the commit: with 20 pipes and pages of 16 KiB, 320 KiB for 19 KB of records. The index is created
 * after the segment was rolled and before it is sealed (sealing.ts). Until then each reading connection keeps a list
 * of its own: a temporary table of (pipe, seq) in its memory. The connection extends the list, before it reads by pipe,
 * by the rows that were committed since.
 *
 *   segment                                       has the index   found by
 *   being written                                 no              each reader's list; the writer's PipeTable for totals
 *   rolled, its index not created yet             no              each reader's list
 *   rolled, with readers; sealed                  yes             the index
 *   compacted, salvaged                           yes             the index
 *   being written, begun by version 0.2.0         yes             the index, which every commit maintains
 *
 * 1 A list is derived from committed rows of the table only. So it needs no protocol between threads, and a crash leaves
 *   nothing of it.
 * 2 A segment is never without both the index and a WAL: it leaves WAL mode after the index is committed. So a start
 *   recognizes a segment that can lack its index, and creates it before it reads the segment (sealing.ts).
 * 3 Rows are appended in the order of their seqs. So a list is complete up to the seq that it was extended to.
 * 4 A connection decides once, when it is opened, whether it uses the index or a list. Both remain correct: rows are
 *   never changed or removed.
 *
 *   a crash                                       found by the next start
 *   before the roll is complete                   no index: the segment is continued. Totals of pipes are read in one scan
 *   after the roll, before the index is committed no index, in WAL mode: the start creates it (rule 2)
 *   after it, before the segment leaves WAL mode  the index, in WAL mode: the start seals the segment
 *
 * A list takes about 11 bytes per message, and a segment has at most 262,144 messages (buffer-writer.ts): 3 MB per thread
 * that reads. Extending it takes 0.6 µs per message and 2 µs when there is nothing new, so a reader that opens a full
 * segment spends 160 ms once. Creating the index takes 0.4 µs per message.
 */
import type Database from 'better-sqlite3'

/** Creates the index of a segment that lacks it. */
export const pipeIndex = 'CREATE INDEX IF NOT EXISTS message_by_pipe ON message (pipe)'

export function hasPipeIndex(db: Database.Database): boolean {
  const name = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = 'message_by_pipe'")
  return name.get() !== undefined
}

export class PipeRows {
  /** FROM clause of statements that read whole rows of a pipe, in the order of seqs. */
  readonly rows: string
  /** FROM clause of statements that read only seqs. */
  readonly seqs: string
  /** The column with the number of the pipe, in both clauses. */
  readonly pipe: string
  readonly #newest: Database.Statement
  readonly #extend: Database.Statement | null
  #throughSeq = 0

  constructor(db: Database.Database) {
    const isIndexed = hasPipeIndex(db)
    this.rows = isIndexed ? 'message' : 'listed CROSS JOIN message USING (seq)'
    this.seqs = isIndexed ? 'message' : 'listed'
    this.pipe = isIndexed ? 'pipe' : 'listed_pipe'
    this.#newest = db.prepare('SELECT max(seq) FROM message').pluck()
    this.#extend = isIndexed ? null : createList(db)
  }

  /** Call before statements that read by pipe. */
  catchUp(): void {
    if (this.#extend === null) return
    const newest = (this.#newest.get() as number | null) ?? 0
    if (newest <= this.#throughSeq) return
    this.#extend.run(this.#throughSeq, newest)
    this.#throughSeq = newest
  }
}

/** In a damaged segment a seq can occur twice. The totals of the rows then show what is missing. */
function createList(db: Database.Database): Database.Statement {
  db.exec(`CREATE TEMP TABLE listed (
    listed_pipe INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (listed_pipe, seq)) WITHOUT ROWID`)
  return db.prepare(
    'INSERT OR IGNORE INTO listed SELECT pipe, seq FROM message NOT INDEXED WHERE seq > ? AND seq <= ?',
  )
}
