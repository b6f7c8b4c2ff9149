/**
 * Compares a copy of the log, restored from its replica, with the log itself, message by message. The log can be in use: it
 * moves on, so messages that only one of the two has are not all errors.
 *
 *   |                                              | copy | log |                                                  |
 *   |----------------------------------------------|------|-----|--------------------------------------------------|
 *   | dropped by retention or compaction since     | yes  | no  | counted, in order                                |
 *   | acknowledged after the copy's last moment    | no   | yes | counted: not replicated yet                      |
 *   | acknowledged before it                       | no   | yes | missing: the replica lacks it                    |
 *   | the same seq with another content            | yes  | yes | an error, unless the log's segment was rewritten |
 *
 * A segment is rewritten by compaction, a deletion of records, and a repair; its generation says so.
 */
import { openLogRows } from './replicated-rows.ts'
import { decodeRowBatch, type EncodedRow } from './row-batch.ts'

export interface ComparedPipe {
  pipeId: string
  /** In the copy. */
  messages: number
  firstSeq: number | null
  lastSeq: number | null
  /** In both, with the same content. */
  same: number
  /** In the log only, and acknowledged before the copy's last moment. */
  missing: number
  /** In both, with a content that no rewriting explains. */
  different: number
  /** Rewritten or dropped by the log since. */
  changedSince: number
  /** In the log only, and newer than the copy. */
  newer: number
}

export interface CompareOptions {
  copyDir: string
  logDir: string
  /** The copy has everything that was acknowledged before this moment, ms since the epoch. */
  throughMs: number
  /** Receives the bytes that were read since its last call. */
  onProgress(bytes: number): void
}

const batchBytes = 4 * 1024 * 1024
/** A message is committed at most this long after it was received. */
const commitWithinMs = 60_000

/** By pipe, in no order. Throws errors of the disk, and of damaged files. */
export function compareLogs(options: CompareOptions): ComparedPipe[] {
  return new Comparison(options).run()
}

class Comparison {
  readonly #copy: LogCursor
  readonly #log: LogCursor
  readonly #throughMs: number
  readonly #pipes = new Map<string, ComparedPipe>()

  constructor({ copyDir, logDir, throughMs, onProgress }: CompareOptions) {
    this.#copy = new LogCursor(copyDir, onProgress)
    this.#log = new LogCursor(logDir, onProgress)
    this.#throughMs = throughMs
  }

  run(): ComparedPipe[] {
    for (;;) {
      const [ours, theirs] = [this.#copy.row, this.#log.row]
      if (ours !== null && (theirs === null || ours.seq < theirs.seq)) this.#onlyInCopy(ours)
      else if (theirs !== null && (ours === null || theirs.seq < ours.seq)) this.#onlyInLog(theirs)
      else if (ours !== null && theirs !== null) this.#inBoth(ours, theirs)
      else return [...this.#pipes.values()]
    }
  }

  #onlyInCopy(row: EncodedRow): void {
    this.#copied(row).changedSince += 1
    this.#copy.advance()
  }

  #onlyInLog(row: EncodedRow): void {
    const isNewer = row.seq > this.#copy.endSeq && row.receivedMs >= this.#throughMs - commitWithinMs
    this.#of(row.pipeId)[isNewer ? 'newer' : 'missing'] += 1
    this.#log.advance()
  }

  #inBoth(ours: EncodedRow, theirs: EncodedRow): void {
    this.#copied(ours)[this.#agreement(ours, theirs)] += 1
    this.#copy.advance()
    this.#log.advance()
  }

  /** The checksum of a row covers its pipe, its id, its totals and its body. */
  #agreement(ours: EncodedRow, theirs: EncodedRow): 'same' | 'different' | 'changedSince' {
    if (ours.crc === theirs.crc) return 'same'
    const isSameMessage = ours.msgId === theirs.msgId && ours.pipeId === theirs.pipeId
    const isRewritten = this.#log.generationOf(ours.seq) > this.#copy.generationOf(ours.seq)
    return isSameMessage && isRewritten ? 'changedSince' : 'different'
  }

  #copied({ pipeId, seq }: EncodedRow): ComparedPipe {
    const pipe = this.#of(pipeId)
    pipe.messages += 1
    pipe.firstSeq ??= seq
    pipe.lastSeq = seq
    return pipe
  }

  #of(pipeId: string): ComparedPipe {
    const known = this.#pipes.get(pipeId) ?? newPipe(pipeId)
    this.#pipes.set(pipeId, known)
    return known
  }
}

function newPipe(pipeId: string): ComparedPipe {
  const counts = { messages: 0, same: 0, missing: 0, different: 0, changedSince: 0, newer: 0 }
  return { pipeId, firstSeq: null, lastSeq: null, ...counts }
}

/** The rows of one log, in order. */
class LogCursor {
  row: EncodedRow | null = null
  /** The newest message at the beginning. Later ones are not read. */
  readonly endSeq: number
  readonly #rows
  readonly #onProgress: (bytes: number) => void
  #batch: Iterator<EncodedRow> = [][Symbol.iterator]()
  #afterSeq = 0

  constructor(dir: string, onProgress: (bytes: number) => void) {
    this.#rows = openLogRows(dir)
    this.#onProgress = onProgress
    this.endSeq = this.#rows.headSeq()
    this.advance()
  }

  advance(): void {
    for (;;) {
      const { done, value } = this.#batch.next()
      if (done !== true) {
        this.row = value.seq <= this.endSeq ? value : null
        return
      }
      const read = this.#afterSeq < this.endSeq ? this.#rows.read(this.#afterSeq, batchBytes) : null
      if (read === null) {
        this.row = null
        return
      }
      this.#onProgress(read.bytes)
      this.#afterSeq = read.lastSeq
      this.#batch = rowsOf(read.rows)
    }
  }

  generationOf(seq: number): number {
    return this.#rows.sealed().findLast(({ firstSeq }) => firstSeq <= seq)?.generation ?? 0
  }
}

function* rowsOf(batch: Buffer): Generator<EncodedRow, undefined> {
  for (const item of decodeRowBatch(batch).items()) if (item.kind === 'row') yield item.row
}
