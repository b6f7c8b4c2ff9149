/**
 * Worker threads of TypeScript files under test. On Node 20 tsx does not set itself up in workers, although they
 * inherit `--import=tsx`: importing this file first makes every worker that is started later do it.
 */
import { syncBuiltinESMExports } from 'node:module'
import workerThreads, { type WorkerOptions } from 'node:worker_threads'

const setUp = `import { register } from '${import.meta.resolve('tsx/esm/api')}'; register()`
const importFlag = `--import=data:text/javascript,${encodeURIComponent(setUp)}`
const PlainWorker = workerThreads.Worker

workerThreads.Worker = class extends PlainWorker {
  constructor(file: string | URL, options: WorkerOptions = {}) {
    super(file, { ...options, execArgv: [...process.execArgv, importFlag] })
  }
}
syncBuiltinESMExports()
