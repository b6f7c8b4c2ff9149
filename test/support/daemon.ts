/**
 * The real daemon for tests: the built program in a child process, on free loopback ports, in a data directory of its
 * own. `stop()` ends it as systemd would (SIGTERM) and answers its exit code; `kill()` is a power cut without the
 * power cut (SIGKILL). `restart()` starts it again on the same data.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { request } from 'undici'
import { observe } from './coverage.ts'
import { until } from './until.ts'

export const binary = new URL('../../bin/pipectl.js', import.meta.url).pathname

export interface DaemonOptions {
  /** An existing data directory; otherwise a new one is made, set up and removed at the end. */
  dataDir?: string
  env?: Record<string, string>
  args?: string[]
  /** Runs the daemon under this command, e.g. `['faketime', '+1 day']`. */
  under?: string[]
}

export interface CreatedWorkspace {
  workspace_id: string
  workspace_name: string
  api_key_id: string
  api_key: string
}

export interface Answer<Body = Record<string, unknown>> {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: Body
  text: string
}

export interface CallOptions {
  /** Another key; null: none at all. */
  key?: string | null
  headers?: Record<string, string>
}

export interface LogLine {
  level: string
  msg: string
  [field: string]: unknown
}

const run = promisify(execFile)

/** What every child gets: nothing of the developer's own settings. */
export function cleanEnv(extra: Record<string, string> = {}): Record<string, string> {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && !/^(PIPECTL_|DESTINATION_DB_SSL|NODE_OPTIONS|TAP|AWS_)/.test(name))
      env[name] = value
  }
  return { ...env, AWS_EC2_METADATA_DISABLED: 'true', ...extra }
}

export function makeDataDir(): string {
  return path.join(mkdtempSync(path.join(os.tmpdir(), 'pipectl-test-')), 'data')
}

/** `pipectl init --json`. */
export async function initDataDir(
  dataDir: string,
  env: Record<string, string> = {},
): Promise<CreatedWorkspace> {
  const { stdout } = await run(process.execPath, [binary, 'init', '--json', '--data-dir', dataDir], {
    env: cleanEnv(env),
  })
  return JSON.parse(stdout)
}

/** `pipectl workspaces create NAME --json`. */
export async function createWorkspace(dataDir: string, name: string): Promise<CreatedWorkspace> {
  const { stdout } = await run(
    process.execPath,
    [binary, 'workspaces', 'create', name, '--json', '--data-dir', dataDir],
    { env: cleanEnv() },
  )
  return JSON.parse(stdout)
}

export class TestDaemon {
  readonly dataDir: string
  readonly #options: DaemonOptions
  readonly #ownsDataDir: boolean
  #child: ChildProcess | null = null
  #exit: Promise<number | string> = Promise.resolve(0)
  apiKey = ''
  workspaceId = ''
  url = ''
  dataUrl = ''
  metricsUrl = ''
  readonly log: LogLine[] = []
  /** stderr lines that are not JSON: there should be none after the start. */
  readonly noise: string[] = []

  constructor(options: DaemonOptions) {
    this.#options = options
    this.#ownsDataDir = options.dataDir === undefined
    this.dataDir = options.dataDir ?? makeDataDir()
  }

  /** False from the moment it was told to stop until it is ready again. */
  isReady = false

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Resolves with the exit code, or the signal's name. */
  get exit(): Promise<number | string> {
    return this.#exit
  }

  async start(): Promise<this> {
    const [command, ...prefix] = [...(this.#options.under ?? []), process.execPath]
    const args = [
      ...prefix,
      binary,
      'serve',
      '--data-dir',
      this.dataDir,
      '--listen',
      '127.0.0.1:0',
      ...(this.#options.args ?? []),
    ]
    const child = spawn(command ?? process.execPath, args, {
      env: cleanEnv({
        PIPECTL_METRICS_LISTEN: '127.0.0.1:0',
        PIPECTL_LOG_FORMAT: 'json',
        PIPECTL_BUFFER_MIN_FREE_BYTES: '0',
        ...this.#options.env,
      }),
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child = child
    this.#exit = new Promise((resolve) =>
      child.once('exit', (code, signal) => resolve(code ?? signal ?? 'gone')),
    )
    const before = this.log.length
    let rest = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) this.#keep(line)
    })
    const ended = this.#exit.then((code) => {
      throw new Error(`the daemon ended with ${code} before it was ready\n${this.tail()}`)
    })
    const ready = await Promise.race([
      ended,
      until('the daemon is ready', () => this.log.slice(before).find((line) => line.msg === 'daemon.ready')),
    ])
    // Its end is no failure any more.
    ended.catch(() => {})
    this.url = String(ready.url)
    this.dataUrl = String(ready.data_url)
    this.metricsUrl = String(ready.metrics_url)
    this.isReady = true
    return this
  }

  #keep(line: string): void {
    try {
      this.log.push(JSON.parse(line))
    } catch {
      this.noise.push(line)
    }
  }

  /** The last log lines, for a failure's message. */
  tail(): string {
    return [...this.noise.slice(-20), ...this.log.slice(-20).map((line) => JSON.stringify(line))].join('\n')
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name)
  }

  async stop(): Promise<number | string> {
    this.isReady = false
    this.#child?.kill('SIGTERM')
    const code = await this.#exit
    this.#child = null
    return code
  }

  async kill(): Promise<void> {
    this.isReady = false
    this.#child?.kill('SIGKILL')
    await this.#exit
    this.#child = null
  }

  /** Stops it where it still runs and removes a data directory of its own. */
  async close(): Promise<void> {
    if (this.#child !== null) await this.stop()
    if (this.#ownsDataDir) rmSync(path.dirname(this.dataDir), { recursive: true, force: true })
  }

  /** A call of the management API with this daemon's key. The answer is recorded for the catalogue's check. */
  async api<Body = Record<string, unknown>>(
    method: string,
    apiPath: string,
    body?: unknown,
    options: CallOptions = {},
  ): Promise<Answer<Body>> {
    const headers: Record<string, string> = { ...options.headers }
    const key = options.key === undefined ? this.apiKey : options.key
    if (key !== null) headers.authorization ??= `Bearer ${key}`
    const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
    if (body !== undefined) headers['content-type'] ??= 'application/json'
    const base = /^\/v1\/(ingest|pull)\//.test(apiPath) ? this.dataUrl : this.url
    return await call<Body>(
      method,
      `${base}${apiPath}`,
      headers,
      body === undefined || isRaw ? body : JSON.stringify(body),
    )
  }

  /** POST /v1/ingest/{pipe_id}; throws unless it was answered 202. */
  async ingest(
    pipeId: string,
    body: unknown,
    options: CallOptions = {},
  ): Promise<{ msg_id: string; records_count: number }> {
    const answer = await this.api<{ msg_id: string; records_count: number }>(
      'POST',
      `/v1/ingest/${pipeId}`,
      body,
      options,
    )
    if (answer.status !== 202) throw new Error(`ingest answered ${answer.status} ${answer.text}`)
    return answer.body
  }

  /** Creates a pipe and answers its id; throws unless it was answered 201. */
  async createPipe(pipe: Record<string, unknown>): Promise<string> {
    const answer = await this.api<{ pipe_id: string }>('POST', '/v1/pipes', pipe)
    if (answer.status !== 201) throw new Error(`create pipe answered ${answer.status} ${answer.text}`)
    return answer.body.pipe_id
  }

  /** Creates a destination and answers its id; throws unless it was answered 201. */
  async createDestination(pipeId: string, destination: Record<string, unknown>): Promise<string> {
    const answer = await this.api<{ destination_id: string }>(
      'POST',
      `/v1/pipes/${pipeId}/destinations`,
      destination,
    )
    if (answer.status !== 201) throw new Error(`create destination answered ${answer.status} ${answer.text}`)
    return answer.body.destination_id
  }

  /** The lane of a destination, as GET destination shows it. */
  async lane(pipeId: string, destinationId: string): Promise<Record<string, unknown>> {
    const answer = await this.api<{ destination: { lane: Record<string, unknown> } }>(
      'GET',
      `/v1/pipes/${pipeId}/destinations/${destinationId}`,
    )
    return answer.body.destination.lane
  }
}

/** One HTTP call; a JSON answer is parsed. */
export async function call<Body = Record<string, unknown>>(
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: string | Buffer | unknown,
): Promise<Answer<Body>> {
  const response = await request(url, {
    method: method as 'GET',
    headers,
    body: typeof body === 'string' || Buffer.isBuffer(body) ? body : null,
  })
  const text = await response.body.text()
  const isJson = String(response.headers['content-type'] ?? '').includes('json')
  const parsed = isJson && text !== '' ? JSON.parse(text) : undefined
  observe(method, new URL(url).pathname, response.statusCode, parsed?.error)
  return { status: response.statusCode, headers: response.headers, body: parsed as Body, text }
}

/** Starts a daemon; a new data directory is set up first. Call `close()` in the test's teardown. */
export async function startDaemon(options: DaemonOptions = {}): Promise<TestDaemon> {
  const daemon = new TestDaemon(options)
  if (options.dataDir === undefined) {
    const created = await initDataDir(daemon.dataDir)
    daemon.apiKey = created.api_key
    daemon.workspaceId = created.workspace_id
  }
  return await daemon.start()
}
