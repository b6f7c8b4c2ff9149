/** Measures the writer's commits for `/metrics`. The writer thread updates shared histograms, which main reads. */
import { bytesBounds, countBounds, Histogram, secondsBounds, sumOfCounts } from '../platform/histogram.ts'
import type { WriterHistograms } from './buffer.ts'

/** The part that is sent to the writer thread. */
export interface ObservedCommits {
  syncSeconds: SharedArrayBuffer
  frameBytes: SharedArrayBuffer
  frameMessages: SharedArrayBuffer
}

export class WriterObserved {
  readonly #syncSeconds: Histogram
  readonly #frameBytes: Histogram
  readonly #frameMessages: Histogram

  constructor(memory?: ObservedCommits) {
    this.#syncSeconds = new Histogram(secondsBounds, { memory: memory?.syncSeconds })
    this.#frameBytes = new Histogram(bytesBounds, { memory: memory?.frameBytes })
    this.#frameMessages = new Histogram(countBounds, { memory: memory?.frameMessages })
  }

  get memory(): ObservedCommits {
    return {
      syncSeconds: this.#syncSeconds.memory,
      frameBytes: this.#frameBytes.memory,
      frameMessages: this.#frameMessages.memory,
    }
  }

  committed(frame: { length: number; count: number }, commitMs: number): void {
    this.#syncSeconds.observe(commitMs / 1000)
    this.#frameBytes.observe(frame.length)
    this.#frameMessages.observe(frame.count)
  }

  histograms(): WriterHistograms {
    return {
      syncSeconds: this.#syncSeconds.countsOf(0),
      frameBytes: this.#frameBytes.countsOf(0),
      frameMessages: this.#frameMessages.countsOf(0),
    }
  }
}

/** The sums of several writers. At least one. */
export function sumOfHistograms(all: readonly WriterHistograms[]): WriterHistograms {
  return {
    syncSeconds: sumOfCounts(all.map(({ syncSeconds }) => syncSeconds)),
    frameBytes: sumOfCounts(all.map(({ frameBytes }) => frameBytes)),
    frameMessages: sumOfCounts(all.map(({ frameMessages }) => frameMessages)),
  }
}
