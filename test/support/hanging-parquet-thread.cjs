/** For --require: the Parquet thread does nothing else while the file `$PARQUET_THREAD_HANGS` exists. */
const { existsSync } = require('node:fs')
const { isMainThread, workerData } = require('node:worker_threads')

const file = process.env.PARQUET_THREAD_HANGS
if (!isMainThread && file !== undefined && workerData?.name === 'parquet') {
  const never = new Int32Array(new SharedArrayBuffer(4))
  setInterval(() => {
    while (existsSync(file)) Atomics.wait(never, 0, 0, 10)
  }, 20).unref()
}
