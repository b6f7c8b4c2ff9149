/** For --require: the first ingest thread does nothing else while `$INGEST_THREAD_FAULT.hang` is there, and throws at `….throw`. */
const { existsSync } = require('node:fs')
const { isMainThread, workerData } = require('node:worker_threads')

const fault = process.env.INGEST_THREAD_FAULT
const data = workerData?.data
if (!isMainThread && fault !== undefined && data?.counters !== undefined && data.index === 0) {
  const never = new Int32Array(new SharedArrayBuffer(4))
  setInterval(() => {
    while (existsSync(`${fault}.hang`)) Atomics.wait(never, 0, 0, 10)
    if (existsSync(`${fault}.throw`)) throw new Error('a fault of the test')
  }, 20)
}
