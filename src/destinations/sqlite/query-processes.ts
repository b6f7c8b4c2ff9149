/**
 * Runs each query on a SQLite file in a process of its own. A thread could not be stopped: `terminate()` waits until SQLite
 * returns, this build of SQLite has no progress callback, and a query can count forever inside one call. The memory of SQLite
 * could not be limited either, because limits of a thread cover only the heap of V8. A process is killed, and the system limits
 * its memory and its CPU time:
 *
 *   daemon                         /bin/sh: ulimit -d MEMORY, ulimit -t CPU, then exec Node.js: query-process.ts
 *     QueryJob ──stdin──────────────▶ opens the file read-only
 *     starts the clock ◀──stdout─R──┤ SQLite runs the query
 *     the result ◀─────stdout─+ or -┘
 *     no result in time: SIGKILL
 *
 * - The process has no environment, no secrets and no other file: SQL is in stdin, so it is in no list of processes.
 * - A killed reader leaves nothing behind: the system releases its locks, and it writes nothing except the index of the WAL,
 *   which SQLite repairs.
 * - A process whose daemon is gone ends by its limit of CPU time.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { threadEntry } from '../../platform/threads.ts'
import { isTableFile, tableFilePath } from './files.ts'
import type { QueryFault, QueryInput } from './query.ts'

export interface TableFileQuery extends QueryInput {
  workspaceId: string
  /** The value of the config key `file`. */
  file: string
  timeoutMs: number
}

/** The message on stdin of the process. */
export interface QueryJob extends QueryInput {
  path: string
  maxMemoryBytes: number
}

export type QueryFailure = QueryFault | 'timeout' | 'missing' | 'too_many'

export class QueryFailedError extends Error {
  readonly reason: QueryFailure

  constructor(reason: QueryFailure, message: string) {
    super(message)
    this.name = 'QueryFailedError'
    this.reason = reason
  }
}

const { queriesPerWorkspace, queries, queryMemoryBytes, queryResponseBytes } = resourceLimits
/** A process is ready after 0.1 s, and on a busy machine after some seconds. */
const startMs = 20_000
/** Heap of V8 for the rows of one response, in MiB. */
const heapMiB = 64
/** Beyond the rows: names of columns, of which SQLite allows 2,000. */
const columnBytes = 1024 * 1024
const stderrCharacters = 2_000

export class QueryProcesses {
  readonly #tablesDir: string
  readonly #running = new Map<ChildProcessWithoutNullStreams, string>()

  constructor(tablesDir: string) {
    this.#tablesDir = tablesDir
  }

  /** Resolves with the JSON text of `{columns, rows, truncated_by, query_ms}`. Rejects with QueryFailedError. */
  async run({ workspaceId, file, timeoutMs, ...input }: TableFileQuery): Promise<Buffer> {
    const path = tableFilePath(this.#tablesDir, workspaceId, file)
    if (!isTableFile(path)) throw new QueryFailedError('missing', 'the file does not exist yet')
    const ofWorkspace = [...this.#running.values()].filter((id) => id === workspaceId).length
    if (ofWorkspace >= queriesPerWorkspace || this.#running.size >= queries)
      throw new QueryFailedError('too_many', 'too many queries at the same time')
    const child = start(timeoutMs)
    this.#running.set(child, workspaceId)
    try {
      return await resultOf(child, { ...input, path, maxMemoryBytes: queryMemoryBytes }, timeoutMs)
    } finally {
      this.#running.delete(child)
    }
  }

  /** Ends all queries. */
  close(): void {
    for (const child of this.#running.keys()) child.kill('SIGKILL')
  }
}

/** `ulimit -d` and `-t` take KiB and seconds. A limit that cannot be set is noticed by the process. */
const limited = 'ulimit -d "$1" && ulimit -t "$2" && shift 2 && exec "$@"'

function start(timeoutMs: number): ChildProcessWithoutNullStreams {
  const entry = fileURLToPath(threadEntry(import.meta.url, './query-process'))
  const nodeOptions = [
    `--max-old-space-size=${heapMiB}`,
    '--max-semi-space-size=4',
    // Its threads have stacks, which count as memory of the process.
    '--v8-pool-size=0',
    // A checkout that runs TypeScript needs its loader there too.
    ...(entry.endsWith('.ts') ? process.execArgv : []),
  ]
  const cpuSeconds = Math.ceil((startMs + timeoutMs) / 1000)
  const words = [String(queryMemoryBytes / 1024), String(cpuSeconds), process.execPath, ...nodeOptions, entry]
  return spawn('/bin/sh', ['-c', limited, 'sh', ...words], { stdio: 'pipe', env: {} })
}

async function resultOf(
  child: ChildProcessWithoutNullStreams,
  job: QueryJob,
  timeoutMs: number,
): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  let stderr = ''
  let isLate = false
  const killLate = () => {
    isLate = true
    child.kill('SIGKILL')
  }
  let timer = setTimeout(killLate, startMs)
  child.stdout.on('data', (chunk: Buffer) => {
    if (bytes === 0) {
      clearTimeout(timer)
      timer = setTimeout(killLate, timeoutMs)
    }
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > queryResponseBytes + columnBytes) child.kill('SIGKILL')
  })
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-stderrCharacters)
  })
  // The process may end before it has read its input.
  child.stdin.on('error', () => {})
  child.stdin.end(JSON.stringify(job))
  try {
    const end = await ended(child)
    return outcome(Buffer.concat(chunks), { ...end, isLate, stderr, timeoutMs })
  } finally {
    clearTimeout(timer)
  }
}

interface End {
  code: number | null
  signal: NodeJS.Signals | null
}

function ended(child: ChildProcessWithoutNullStreams): Promise<End> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal }))
  })
}

function outcome(
  output: Buffer,
  { code, signal, isLate, stderr, timeoutMs }: End & { isLate: boolean; stderr: string; timeoutMs: number },
): Buffer {
  const at = output[0] === 'R'.charCodeAt(0) ? 1 : 0
  const kind = code === 0 ? String.fromCharCode(output[at] ?? 0) : ''
  const rest = output.subarray(at + 1)
  if (kind === '+') return rest
  if (kind === '-') {
    const { reason, message }: { reason: QueryFault; message: string } = JSON.parse(rest.toString())
    throw new QueryFailedError(reason, message)
  }
  if (isLate && at === 1) throw new QueryFailedError('timeout', `it took longer than ${timeoutMs / 1000} s`)
  // V8 aborts when its heap is full.
  if (signal === 'SIGABRT' || signal === 'SIGTRAP') throw new QueryFailedError('memory', 'out of memory')
  throw new Error(`the process of a query ended with ${signal ?? `code ${code}`}: ${stderr}`)
}
