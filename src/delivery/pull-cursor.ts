/** Reads the messages after a pull lane's cursor, in order, and counts messages lost before them. */
import type { BufferReader, Cursor, MarkedMessage } from '../log/buffer.ts'
import { type BatchReader, pastGap } from './batch-reader.ts'
import type { EventLoopTurns } from './clock.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneDeps } from './lane.ts'

const firstOnly = { maxRecords: 1, maxBytes: 1 }

export class PullCursor {
  readonly #pipeId: string
  readonly #reader: BufferReader
  readonly #batches: BatchReader
  readonly #state: DurableState
  /** Shared by all lanes: a message can have 64 MiB, and a read blocks the event loop. */
  readonly #turns: EventLoopTurns
  /** The cursor moved past lost messages, so a message in flight becomes invalid. */
  readonly #onDropped: () => void
  #isEarliestCheckDue = true

  constructor(
    pipeId: string,
    { batches, state }: { batches: BatchReader; state: DurableState },
    { reader, pullTurns }: Pick<LaneDeps, 'reader' | 'pullTurns'>,
    onDropped: () => void,
  ) {
    this.#pipeId = pipeId
    this.#reader = reader
    this.#batches = batches
    this.#state = state
    this.#turns = pullTurns
    this.#onDropped = onDropped
  }

  /** Retention dropped messages: the next read compares the cursor with the kept messages. */
  notifyDropped(): void {
    this.#isEarliestCheckDue = true
  }

  earliest(): Promise<Cursor> {
    return this.#reader.earliest(this.#pipeId)
  }

  head(): Promise<Cursor> {
    return this.#batches.head()
  }

  /** The cursor just after `seq`, and the number of records between the lane's cursor and it. */
  async at(seq: number): Promise<{ to: Cursor; records: number }> {
    const { mark } = await this.#reader.cursorAt(this.#pipeId, seq)
    const { records } = await this.#batches.backlogThrough(this.#state.row, seq)
    return { to: { seq, mark }, records }
  }

  /** The first message after the cursor; null when there is none. */
  async first(): Promise<MarkedMessage | null> {
    for (;;) {
      await this.#turns.take()
      const { cursorSeq, cursorMark } = this.#state.row
      const run = await this.#reader.read(this.#pipeId, cursorSeq, { ...firstOnly, afterMark: cursorMark })
      this.#isEarliestCheckDue = true
      await this.countLost()
      // Retention overtook the cursor, and the message that was read is before it.
      if (this.#state.row.cursorSeq !== cursorSeq) continue
      const gap = pastGap(this.#state.row, run)
      if (gap === null) return run.messages[0] ?? null
      this.#onDropped()
      await this.#state.dropped(gap)
    }
  }

  /** Reads without moving the cursor; the consumer's own `after_seq` decides. */
  async firstAfter(seq: number): Promise<MarkedMessage | null> {
    for (let after = seq; ; ) {
      await this.#turns.take()
      const run = await this.#reader.read(this.#pipeId, after, firstOnly)
      if (run.messages[0] !== undefined) return run.messages[0]
      const damaged = run.damaged.at(-1)
      if (damaged === undefined) return null
      after = damaged.seq
    }
  }

  async countLost(): Promise<void> {
    if (!this.#isEarliestCheckDue) return
    this.#isEarliestCheckDue = false
    const located = await this.#batches.located(this.#state.row)
    if (located !== this.#state.row) {
      this.#state.change(located)
      await this.#state.save()
    }
    const lost = await this.#batches.lost(this.#state.row)
    if (lost === null) return
    this.#onDropped()
    await this.#state.dropped(lost)
  }
}
