/**
 * Handles a segment that a reader cannot read: reports it to the writer, which salvages it, and waits until the file
 * has a newer generation or is gone. Only readers of that segment wait.
 */
import { existsSync } from 'node:fs'
import { BufferReadUnavailableError } from '../buffer.ts'
import { FeedChannel } from './feed.ts'
import { type SegmentName, segmentFile } from './layout.ts'
import type { SegmentsSpec } from './protocol.ts'

const lookEveryMs = 50
/** The writer may not have listened yet, or had no space. */
const repeatEveryMs = 1_000
/** On a full disk a salvage waits for space. Lanes ask again then, people are told. */
const longestWaitMs = 60_000
/** A segment that cannot be read although it was salvaged: the mistake is ours. */
const mostReports = 3

export class DamageReports {
  readonly #dir: string
  readonly #feed: FeedChannel
  readonly #longestWaitMs: number
  readonly #reported = new Map<number, number>()
  #isClosed = false

  constructor({ dir, channel }: Pick<SegmentsSpec, 'dir' | 'channel'>, longest = longestWaitMs) {
    this.#dir = dir
    this.#longestWaitMs = longest
    this.#feed = new FeedChannel(channel)
  }

  /**
   * Rejects with the error when it happens again and again, or the reader is closed meanwhile; with BufferReadUnavailableError
   * when the file has not changed for a minute.
   */
  async untilChanged({ firstSeq, generation }: SegmentName, error: unknown): Promise<void> {
    const reports = (this.#reported.get(firstSeq) ?? 0) + 1
    if (reports > mostReports) throw error
    const file = segmentFile(this.#dir, { firstSeq, generation })
    for (let waitedMs = 0; existsSync(file); waitedMs += lookEveryMs) {
      if (this.#isClosed) throw error
      if (waitedMs >= this.#longestWaitMs)
        throw new BufferReadUnavailableError(`${file} is damaged and not salvaged yet`, error)
      if (waitedMs % repeatEveryMs === 0) {
        this.#feed.post({ kind: 'segment_damaged', firstSeq, generation, error: String(error) })
      }
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    }
    // Several readings may have waited for the same.
    this.#reported.set(firstSeq, reports)
    setTimeout(() => this.#reported.delete(firstSeq), 60_000).unref()
  }

  close(): void {
    this.#isClosed = true
    this.#feed.close()
  }
}
