/**
 * Runs the test files side by side, each in a Node.js of its own: all of dist-test/, or those given.
 *
 *   node dist-test/run-files.js [dist-test/FILE.test.js …]
 *
 * `tap` starts each file with hooks for coverage in a thread of their own and with source maps. Nothing here needs them,
 * and they take 0.55 s of CPU for each of 430 files. What a file says is the same, and ends with the same summary.
 *
 * A file holds when it ends by itself with 0, and its last summary counts assertions and no failed one. The summary of all
 * is tap's line as well: `# { total: 40, pass: 39, fail: 1 }`.
 */
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** More than cores: many files wait for a server, a deadline or a disk. */
const jobs = Number(process.env.TEST_JOBS ?? os.availableParallelism() + 3)
const timeoutSeconds = 900
const root = path.resolve(import.meta.dirname, '..')
const outputs = path.join(root, '.tap', 'output')

/** They take a minute and more: none of them shall be the last that the others wait for. */
const longest = [
  ...['world/soak', 'world/cluster/chaos', 'package/', 'migrate/', 'browser/', 'world/cluster/', 'crash/'],
  ...['world/repair', 'unit/destinations/set-aside', 'unit/destinations/rogue', 'world/faults/'],
  ...['unit/cli/', 'unit/cluster/', 'world/', 'unit/buffer/jetstream', 'docs/guides/'],
]

interface Outcome {
  problem: string | null
  pass: number
  fail: number
  skip: number
}

function filesOf(args: string[]): string[] {
  if (args.length > 0) return args
  const all = readdirSync(path.join(root, 'dist-test'), { recursive: true, encoding: 'utf8' })
  return all.filter((file) => file.endsWith('.test.js')).map((file) => path.join('dist-test', file))
}

/** The place in `longest`; behind it for all others. */
function rank(file: string): number {
  const at = longest.findIndex((start) => file.startsWith(`dist-test/${start}`))
  return at === -1 ? longest.length : at
}

function run(file: string): Promise<Outcome> {
  const output = path.join(outputs, `${file.replaceAll('/', '_')}.txt`)
  // A file and no pipe: a process that a test left behind would keep a pipe open.
  const to = openSync(output, 'w')
  const child = spawn(process.execPath, ['--import=./test/support/plain-children.mjs', file], {
    cwd: root,
    env: { ...process.env, TAP_TIMEOUT: String(timeoutSeconds) },
    stdio: ['ignore', to, to],
  })
  closeSync(to)
  const stopChild = () => child.kill('SIGKILL')
  process.once('exit', stopChild)
  // tap ends by itself what takes longer, and says where it stood.
  const timer = setTimeout(stopChild, (timeoutSeconds + 30) * 1000)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      process.off('exit', stopChild)
      resolve(outcome(readFileSync(output, 'utf8'), code ?? signal))
    })
  })
}

function outcome(text: string, end: number | string | null): Outcome {
  const summary = [...text.matchAll(/^# (\{ total: .*\})$/gm)].at(-1)?.[1] ?? ''
  const count = (name: string) => Number(new RegExp(`${name}: (\\d+)`).exec(summary)?.[1] ?? 0)
  const [pass, fail, skip] = [count('pass'), count('fail'), count('skip')]
  const problem = () => {
    if (summary === '') return `ended with ${end}, without a summary`
    if (fail > 0) return `${fail} failed`
    if (end !== 0) return `ended with ${end}`
    return pass + skip === 0 ? 'nothing was tested' : null
  }
  return { problem: problem(), pass, fail, skip }
}

/** Without what holds. */
function readable(file: string): string {
  const text = readFileSync(path.join(outputs, `${file.replaceAll('/', '_')}.txt`), 'utf8')
  return text
    .split('\n')
    .filter((line) => !/^ *(ok |# Subtest|1\.\.|# time=|$)/.test(line))
    .join('\n')
}

mkdirSync(outputs, { recursive: true })
process.setMaxListeners(0)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const files = filesOf(process.argv.slice(2)).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, 'en'))
const waiting = [...files]
const total = { pass: 0, fail: 0, skip: 0 }
const failed: string[] = []

async function work(): Promise<void> {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    const startedMs = Date.now()
    const { problem, pass, fail, skip } = await run(file)
    const seconds = ((Date.now() - startedMs) / 1000).toFixed(1)
    total.pass += pass
    // A file that dies has failed as well.
    total.fail += problem === null ? 0 : Math.max(1, fail)
    total.skip += skip
    if (problem !== null) {
      failed.push(file)
      console.log(readable(file))
    }
    console.log(
      `${problem === null ? 'ok' : 'not ok'} - ${file} # ${problem ?? `${pass} passed`}, ${seconds} s`,
    )
  }
}

await Promise.all(Array.from({ length: Math.min(jobs, files.length) }, work))
const { pass, fail, skip } = total
console.log(
  `# ${files.length} files, ${failed.length} failed${failed.map((file) => `\n#   ${file}`).join('')}`,
)
console.log(`# { total: ${pass + fail + skip}, pass: ${pass}, fail: ${fail}, skip: ${skip} }`)
process.exitCode = failed.length > 0 || files.length === 0 ? 1 : 0
