/** For --require: while the file INGEST_THREAD_FAULT is there, the first ingest thread throws, or does nothing else. */
const { existsSync, readFileSync } = require('node:fs')
const { isMainThread, workerData } = require('node:worker_threads')

const file = process.env.INGEST_THREAD_FAULT
if (!isMainThread && file !== undefined && workerData?.counters !== undefined && workerData.index === 0) {
  const never = new Int32Array(new SharedArrayBuffer(4))
  setInterval(() => {
    if (!existsSync(file)) return
    if (readFileSync(file, 'utf8') === 'throw') throw new Error('a fault of the test')
    while (existsSync(file)) Atomics.wait(never, 0, 0, 10)
  }, 20)
}
