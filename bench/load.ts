/** Load on the ingest path by a public generator: wrk where it is installed, autocannon otherwise. */
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

export interface LoadOptions {
  url: string
  headers: Record<string, string>
  /** Sent in turn. */
  bodies: readonly string[]
  /** Paths that the requests go to in turn, instead of the one in `url`. Only wrk can. */
  paths?: readonly string[]
  connections: number
  /** Whole ones: rounded up. */
  seconds: number
}

export interface LoadResult {
  generator: string
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
  /** Responses other than 2xx and socket errors. */
  failed: number
}

const run = promisify(execFile)
export const generator = spawnSync('wrk', ['-v']).error === undefined ? 'wrk' : 'autocannon'

export async function load(options: LoadOptions): Promise<LoadResult> {
  return generator === 'wrk' ? await withWrk(options) : await withAutocannon(options)
}

async function withWrk({
  url,
  headers,
  bodies,
  paths,
  connections,
  seconds,
}: LoadOptions): Promise<LoadResult> {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-bench-'))
  const script = path.join(dir, 'request.lua')
  const lines = ['wrk.method = "POST"']
  for (const [name, value] of Object.entries(headers))
    lines.push(`wrk.headers[${luaString(name)}] = ${luaString(value)}`)
  // Requests are made once, before the measurement: building them must not slow the generator down.
  lines.push('local requests, at = {}, 0', 'function init(args)')
  const variants = Math.max(bodies.length, paths?.length ?? 0)
  for (let index = 0; index < variants; index += 1) {
    const path = paths === undefined ? 'nil' : luaString(paths[index % paths.length] ?? '')
    const body = luaString(bodies[index % bodies.length] ?? '')
    lines.push(`requests[${index + 1}] = wrk.format(nil, ${path}, nil, ${body})`)
  }
  lines.push('end', 'function request()', `at = at % ${variants} + 1`, 'return requests[at]', 'end')
  writeFileSync(script, lines.join('\n'))
  const args = [
    '-t',
    '1',
    '-c',
    String(connections),
    '-d',
    `${Math.ceil(seconds)}s`,
    '--latency',
    '-s',
    script,
    url,
  ]
  const { stdout } = await run('wrk', args)
  const number = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1] ?? 0)
  return {
    generator: 'wrk',
    requestsPerSecond: number(/Requests\/sec:\s+([\d.]+)/),
    p50Ms: milliseconds(/^\s+50%\s+(\S+)/m.exec(stdout)?.[1]),
    p99Ms: milliseconds(/^\s+99%\s+(\S+)/m.exec(stdout)?.[1]),
    failed:
      number(/Non-2xx or 3xx responses: (\d+)/) +
      (/Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout)?.slice(1) ?? [])
        .map(Number)
        .reduce((sum, one) => sum + one, 0),
  }
}

function luaString(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')}"`
}

function milliseconds(text = ''): number {
  const value = Number.parseFloat(text)
  return text.endsWith('us') ? value / 1000 : text.endsWith('ms') ? value : value * 1000
}

async function withAutocannon({
  url,
  headers,
  bodies,
  connections,
  seconds,
}: LoadOptions): Promise<LoadResult> {
  const args = [
    '-c',
    String(connections),
    '-d',
    String(Math.ceil(seconds)),
    '-m',
    'POST',
    '-b',
    // autocannon's command line takes one body.
    bodies[0] ?? '',
    '--json',
    '--no-progress',
  ]
  for (const [name, value] of Object.entries(headers)) args.push('-H', `${name}: ${value}`)
  const cli = new URL('../node_modules/autocannon/autocannon.js', import.meta.url).pathname
  const { stdout } = await run(process.execPath, [cli, ...args, url], { maxBuffer: 1 << 26 })
  const result = JSON.parse(stdout)
  return {
    generator: 'autocannon',
    requestsPerSecond: result.requests.average,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    failed: result.non2xx + result.errors + result.timeouts,
  }
}
