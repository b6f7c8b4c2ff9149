/**
 * Creates the index by pipe of large segments in a thread: 0.1 s for 262,144 messages, in which the writer's thread would
 * commit nothing. The writer keeps its connection to the segment open meanwhile, and writes nothing to it.
 */
import { Thread, ThreadPool, threadEntry } from '../../platform/threads.ts'
import type { IndexCalls } from './index-thread.ts'
import type { SegmentName } from './layout.ts'

const idleMs = 1_000
/** Creating an index takes less than a second on a slow disk. A stop of the daemon waits no longer. */
const longestWaitMs = 10_000

/** Starts to create the index of a segment. */
export type StartIndex = (name: SegmentName) => IndexCreation

export function openIndexThreads(dir: string): StartIndex {
  const threads = new ThreadPool<IndexCalls>(
    () =>
      new Thread({
        name: 'buffer-index',
        entry: threadEntry(import.meta.url, './index-thread'),
        data: dir,
      }),
    { idleMs, end: 'close' },
  )
  return (name) =>
    new IndexCreation((isDone) => threads.run((thread) => thread.call('create', [name, isDone])))
}

export class IndexCreation {
  isRunning = true
  /** The error with which it ended. */
  failure: unknown = null
  readonly #isDone = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)

  constructor(start: (isDone: SharedArrayBuffer) => Promise<void>) {
    void start(this.#isDone)
      .catch((error) => {
        this.failure = error
      })
      .finally(() => {
        this.isRunning = false
      })
  }

  /** Blocks this thread until the other one has closed the file. */
  wait(): void {
    if (this.isRunning) Atomics.wait(new Int32Array(this.#isDone), 0, 0, longestWaitMs)
  }
}
