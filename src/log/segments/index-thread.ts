/** The thread that creates the index by pipe of a large segment that was rolled. `index-threads.ts` starts it. */
import { lowerPriority } from '../../platform/processor-time.ts'
import { onFile } from '../../platform/storage-error.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import { pipeIndex, type SegmentName } from './layout.ts'
import { openForWriting } from './segment-file.ts'

export interface IndexCalls {
  /** `isDone` is one Int32, which becomes 1 when the thread no longer has the file open. */
  create(name: SegmentName, isDone: SharedArrayBuffer): void
}

const host = new ThreadHost<string, IndexCalls>()
// No other thread waits for the index, which takes 0.1 to 0.2 s of processor time.
lowerPriority()

host.serve({
  create(name, isDone) {
    try {
      createIndex(host.data, name)
    } finally {
      const done = new Int32Array(isDone)
      Atomics.store(done, 0, 1)
      Atomics.notify(done, 0)
    }
  },
})

function createIndex(dir: string, name: SegmentName): void {
  const db = openForWriting(dir, name)
  onFile('writing', db.name, () => {
    try {
      // The writer moves the WAL when it seals the segment.
      db.pragma('wal_autocheckpoint = 0')
      db.exec(pipeIndex)
    } finally {
      db.close()
    }
  })
}
