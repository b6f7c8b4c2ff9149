/**
 * Worker threads of TypeScript files under test: importing this file first makes every worker that is started later run
 * what `npm run build` made of its file. A loader for TypeScript in each worker costs two seconds of CPU for every buffer
 * that a test opens.
 */
import { readdirSync, statSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import workerThreads, { type WorkerOptions } from 'node:worker_threads'

const project = fileURLToPath(new URL('../../..', import.meta.url))
const src = path.join(project, 'src')
const dist = path.join(project, 'dist')
const PlainWorker = workerThreads.Worker

/** The time of the latest change of a file. */
function changedMs(dir: string): number {
  const files = readdirSync(dir, { recursive: true, encoding: 'utf8' })
  return Math.max(...files.map((file) => statSync(path.join(dir, file)).mtimeMs))
}

// Each build writes it, also one that finds nothing changed.
const built = statSync(path.join(dist, '.transpiled.json'), { throwIfNoEntry: false })
if (built === undefined || built.mtimeMs < changedMs(src))
  throw new Error('dist/ is older than src/, and worker threads are started from there: npm run build')

workerThreads.Worker = class extends PlainWorker {
  constructor(file: string | URL, options: WorkerOptions = {}) {
    // Workers load the modules that a test preloads too; they do not need the loader of TypeScript.
    const execArgv = process.execArgv.filter((flag) => flag.includes('test/support/'))
    super(builtFile(file), { ...options, execArgv })
  }
}
syncBuiltinESMExports()

function builtFile(file: string | URL): string | URL {
  const source = file instanceof URL && file.protocol === 'file:' ? fileURLToPath(file) : ''
  if (!source.startsWith(src + path.sep) || !source.endsWith('.ts')) return file
  return pathToFileURL(path.join(dist, path.relative(src, source)).replace(/\.ts$/, '.js'))
}
