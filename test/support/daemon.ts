/**
 * The real daemon for tests: the built program in a child process, on free loopback ports, in a data directory of its
 * own. `stop()` ends it as systemd would (SIGTERM) and returns its exit code; `kill()` is a power cut without the
 * power cut (SIGKILL). `restart()` starts it again on the same data.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { request } from 'undici'
import { type Answer, ApiClient, type CallOptions } from './api-client.ts'
import { observe } from './coverage.ts'
import { testedEngine } from './http-engine.ts'
import { testedWorkers } from './ingest-workers.ts'
import { OpenApiCheck } from './openapi-check.ts'
import { until } from './until.ts'

/**
 * The program under test: the bundled one in a complete run (test/run-files.ts), else this checkout's, or the one that
 * PIPECTL_PROGRAM names (the bench compares two builds).
 */
export const binary =
  process.env.PIPECTL_PROGRAM ??
  process.env.TEST_PROGRAM ??
  new URL('../../bin/pipectl.js', import.meta.url).pathname

export interface DaemonOptions {
  /** An existing data directory; otherwise a new one is made, set up and removed at the end. */
  dataDir?: string
  env?: Record<string, string>
  args?: string[]
  /** Another build's bin/pipectl.js, beside this one: for the bench. */
  program?: string
  /** Runs the daemon under this command, e.g. `['faketime', '+1 day']`. */
  under?: string[]
  /** Its log goes to this file as well, for the test files that share it. */
  logFile?: string
}

export interface CreatedWorkspace {
  workspace_id: string
  workspace_name: string
  api_key_id: string
  api_key: string
}

export interface LogLine {
  level: string
  msg: string
  [field: string]: unknown
}

const run = promisify(execFile)

/** The environment of every child: nothing of the developer's own settings. */
export function cleanEnv(extra: Record<string, string> = {}): Record<string, string> {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && !/^(PIPECTL_|DESTINATION_DB_SSL|NODE_OPTIONS|TAP|AWS_)/.test(name))
      env[name] = value
  }
  // Where no binding loads, every start would say so in the log.
  const engine: Record<string, string> = testedEngine === 'node' ? { PIPECTL_HTTP_ENGINE: 'node' } : {}
  return { ...env, AWS_EC2_METADATA_DISABLED: 'true', ...engine, ...extra }
}

export function makeDataDir(): string {
  return path.join(mkdtempSync(path.join(os.tmpdir(), 'pipectl-test-')), 'data')
}

/** `pipectl init --json`. */
export async function initDataDir(
  dataDir: string,
  env: Record<string, string> = {},
  program = binary,
): Promise<CreatedWorkspace> {
  const { stdout } = await run(process.execPath, [program, 'init', '--json', '--data-dir', dataDir], {
    env: cleanEnv(env),
  })
  return JSON.parse(stdout)
}

/** As `initDataDir`, but a copy of what it made once for this build: tests that are not about `init` save its time. */
export async function copyFreshDataDir(dataDir: string): Promise<CreatedWorkspace> {
  const template = await freshTemplate()
  cpSync(path.join(template, 'data'), dataDir, { recursive: true })
  return JSON.parse(readFileSync(path.join(template, 'created.json'), 'utf8'))
}

/** Test files run side by side: the first that has made one gives it its name, the others use it. */
async function freshTemplate(): Promise<string> {
  const template = cacheFile('pipectl-data-dirs', buildName())
  const cache = path.dirname(template)
  if (existsSync(template)) return template
  mkdirSync(cache, { recursive: true })
  const making = mkdtempSync(path.join(cache, 'making-'))
  const created = await initDataDir(path.join(making, 'data'))
  writeFileSync(path.join(making, 'created.json'), JSON.stringify(created))
  try {
    renameSync(making, template)
  } catch (error) {
    if (!existsSync(template)) throw error
    rmSync(making, { recursive: true })
  }
  return template
}

function cacheFile(...names: string[]): string {
  return path.join(fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url)), ...names)
}

/** Another build may make its data directories differently. */
function buildName(): string {
  const root = path.dirname(path.dirname(binary))
  const hash = createHash('sha256').update(root)
  for (const file of readdirSync(path.join(root, 'dist'), { recursive: true, encoding: 'utf8' }).sort()) {
    if (!file.endsWith('.js')) continue
    const { mtimeMs, size } = statSync(path.join(root, 'dist', file))
    hash.update(`${file} ${mtimeMs} ${size}\n`)
  }
  return hash.digest('hex').slice(0, 16)
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

/** A workspace that has nothing to do with the test's own. The name is unique: other files can use the same daemon. */
export function createStranger(dataDir: string): Promise<CreatedWorkspace> {
  return createWorkspace(dataDir, `stranger-${randomUUID()}`)
}

export class TestDaemon extends ApiClient {
  readonly dataDir: string
  readonly #options: DaemonOptions
  readonly #ownsDataDir: boolean
  #child: ChildProcess | null = null
  #exit: Promise<number | string> = Promise.resolve(0)
  #check: Promise<OpenApiCheck> | null = null
  apiKey = ''
  workspaceId = ''
  url = ''
  dataUrl = ''
  metricsUrl = ''
  readonly log: LogLine[] = []
  /** stderr lines that are not JSON: there should be none after the start. */
  readonly noise: string[] = []

  constructor(options: DaemonOptions) {
    super()
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
      this.#options.program ?? binary,
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
        PIPECTL_HTTP_ENGINE: testedEngine,
        PIPECTL_INGEST_WORKERS: testedWorkers,
        // The tests' own servers are on loopback, whatever workspaces a test makes.
        PIPECTL_EGRESS_PRIVATE: 'allow',
        ...this.#options.env,
      }),
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child = child
    // A process that is ended from outside leaves no daemon behind.
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    this.#exit = new Promise((resolve) =>
      child.once('exit', (code, signal) => {
        process.off('exit', kill)
        resolve(code ?? signal ?? 'gone')
      }),
    )
    const before = this.log.length
    let rest = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      if (this.#options.logFile !== undefined) appendFileSync(this.#options.logFile, text)
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) this.#keep(line)
    })
    let endedWith: number | string | null = null
    void this.#exit.then((code) => {
      endedWith = code
    })
    // One wait for both: what waits on for a daemon that has ended keeps the test's process for two minutes.
    const ready = await until(
      'the daemon is ready or has ended',
      () =>
        this.log.slice(before).find((line) => line.msg === 'daemon.ready') ??
        (endedWith === null ? null : 'no'),
    )
    if (ready === 'no')
      throw new Error(`the daemon ended with ${endedWith} before it was ready\n${this.tail()}`)
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

  /** A call of the management API with this daemon's key. The response is recorded for the catalogue's check
   *  and compared with the OpenAPI document that the daemon serves. */
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
    const base = /^\/v1\/(ingest|hooks|pull)\//.test(apiPath) ? this.dataUrl : this.url
    const text = body === undefined || isRaw ? body : JSON.stringify(body)
    const answer = await call<Body>(method, `${base}${apiPath}`, headers, text, options.isBroken)
    await this.#compareWithDocument(method, apiPath, answer)
    return answer
  }

  /** Throws when the OpenAPI document that this daemon serves does not describe the response. */
  async #compareWithDocument(method: string, apiPath: string, answer: Answer<unknown>): Promise<void> {
    // Another build, e.g. an older one in a bench, is not what is tested.
    if (process.env.PIPECTL_PROGRAM !== undefined || this.#options.program !== undefined) return
    this.#check ??= fetchCheck(this.url)
    const { status, body, text } = answer
    const path = apiPath.split('?')[0] ?? ''
    const problems = (await this.#check).problems({ method, path, status, body, text })
    if (problems.length > 0)
      throw new Error(
        `${method} ${path} → ${status} ${text}\nnot as in the OpenAPI document: ${problems.join('; ')}`,
      )
  }

  /** The same daemon with the key of another workspace. */
  as(key: string): ApiClient {
    return new OtherWorkspace(this, key)
  }
}

class OtherWorkspace extends ApiClient {
  readonly #daemon: TestDaemon
  readonly #key: string

  constructor(daemon: TestDaemon, key: string) {
    super()
    this.#daemon = daemon
    this.#key = key
  }

  get isReady(): boolean {
    return this.#daemon.isReady
  }

  api<Body = Record<string, unknown>>(
    method: string,
    apiPath: string,
    body?: unknown,
    options: CallOptions = {},
  ): Promise<Answer<Body>> {
    return this.#daemon.api<Body>(method, apiPath, body, { key: this.#key, ...options })
  }
}

async function fetchCheck(url: string): Promise<OpenApiCheck> {
  const response = await request(`${url}/openapi/management-v1.openapi.yaml`)
  const yaml = await response.body.text()
  // Parsed once for all test files: it takes a third of a second. Each daemon names its own address in it.
  const key = createHash('sha256').update(yaml.replaceAll(url, '')).digest('hex').slice(0, 16)
  const parsed = cacheFile('pipectl-openapi', `${key}.json`)
  if (!existsSync(parsed)) {
    mkdirSync(path.dirname(parsed), { recursive: true })
    const { parse } = await import('yaml')
    writeFileSync(`${parsed}.${process.pid}`, JSON.stringify(parse(yaml)))
    renameSync(`${parsed}.${process.pid}`, parsed)
  }
  return new OpenApiCheck(JSON.parse(readFileSync(parsed, 'utf8')))
}

/** One HTTP call; a JSON response is parsed. */
export async function call<Body = Record<string, unknown>>(
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: string | Buffer | unknown,
  isBroken = false,
): Promise<Answer<Body>> {
  const response = await request(url, {
    method: method as 'GET',
    headers,
    body: typeof body === 'string' || Buffer.isBuffer(body) ? body : null,
  })
  const text = await response.body.text()
  const isJson = String(response.headers['content-type'] ?? '').includes('json')
  const parsed = isJson && text !== '' ? JSON.parse(text) : undefined
  if (!isBroken) observe(method, new URL(url).pathname, response.statusCode, parsed?.error)
  return { status: response.statusCode, headers: response.headers, body: parsed as Body, text }
}

/** Starts a daemon; a new data directory is set up first. Call `close()` in the test's teardown. */
export async function startDaemon(options: DaemonOptions = {}): Promise<TestDaemon> {
  const daemon = new TestDaemon(options)
  if (options.dataDir === undefined) {
    const { program } = options
    const created =
      program === undefined
        ? await copyFreshDataDir(daemon.dataDir)
        : await initDataDir(daemon.dataDir, {}, program)
    daemon.apiKey = created.api_key
    daemon.workspaceId = created.workspace_id
  }
  return await daemon.start()
}
