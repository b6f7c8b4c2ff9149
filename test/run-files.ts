/**
 * Runs test files next to each other, each in a process of its own: the fast tier, the full tier, or the files named.
 *
 *   node dist-test/run-files.js [options] [FILE or FOLDER …]
 *
 *   --full          the groups of the full tier: everything that the fast tier leaves out (see tiers.ts)
 *   --change        the part of the full tier that each change has to pass, next to the fast tier
 *   --only NAME     one group of the full tier, completely
 *   --scale N       N times the random cases, restarts, faults and seconds of the tests that have such a number
 *   --node24        the files named on the Node.js of the packages; groups that run on it do so without being asked
 *   --forgive N     at most N files that failed pass if they pass when run again alone; they are named at the end
 *
 * As many jobs run as there are cores, and more while the cores have time for them; TEST_JOBS sets the largest number.
 * TEST_SEED takes another seed for the random cases.
 *
 * A job passes if it ends by itself with 0, and its last summary counts assertions and no failed one. Each job is the
 * leader of a process group, and the group is killed when the job ends, so that a test leaves no daemon behind. The fast
 * tier also fails if an operation or an error code of the contract was not exercised.
 *
 * The `tap` command would start each file with hooks for coverage in a thread of their own and with source maps, which
 * cost 0.55 s of CPU each. The output of a file and the form of the last summary are the same.
 */
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { catalogueGaps } from './support/catalogue-gaps.ts'
import { observedDir } from './support/coverage.ts'
import { type NodeRuntime, prepareNode24 } from './support/node24.ts'
import { readObservations } from './support/observations.ts'
import { prepareServers } from './support/programs.ts'
import type { HostedDaemon } from './support/shared-daemon.ts'
import { changeJobs, fastJobs, fullJobs, type Job, jobOf } from './tiers.ts'

const root = path.resolve(import.meta.dirname, '..')
const outputs = path.join(root, '.tap', 'output')

interface Outcome {
  job: Job
  /** Null if the job passed. */
  problem: string | null
  pass: number
  fail: number
  skip: number
  seconds: number
  /** The CPU time of the job and of the processes that it waited for. */
  cpuSeconds: number
}

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    full: { type: 'boolean', default: false },
    change: { type: 'boolean', default: false },
    only: { type: 'string' },
    scale: { type: 'string', default: process.env.TEST_SCALE ?? '1' },
    forgive: { type: 'string', default: '0' },
    node24: { type: 'boolean', default: false },
  },
})
const scale = numberOf('scale')
const forgiven = numberOf('forgive')
const timeoutSeconds = 900 * Math.max(1, scale)
const isFull = options.full || options.only !== undefined
const isFast = !isFull && !options.change && positionals.length === 0
/** More than cores: many files wait for a server, a deadline or a disk. With 3 more two cores were idle for 15 % of the time. */
const mostJobs = Number(process.env.TEST_JOBS ?? os.availableParallelism() + 4)

const ownRuntime: NodeRuntime = { execPath: process.execPath, root, env: {} }
let node24 = ownRuntime
mkdirSync(outputs, { recursive: true })
process.setMaxListeners(0)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

function numberOf(name: 'scale' | 'forgive'): number {
  const value = Number(options[name])
  if (Number.isFinite(value) && value >= 0) return value
  throw new Error(`--${name} takes a number of at least 0, not ${options[name]}`)
}

/** Returns whether everything passed. */
async function main(): Promise<boolean> {
  if (isFast) rmSync(observedDir, { recursive: true, force: true })
  const jobs = chosenJobs()
  if (jobs.length === 0) throw new Error(`no test file is named ${positionals.join(' ')}`)
  // Before the first file, so that a server that cannot be had ends the run with one line.
  if (positionals.length === 0) prepareServers()
  if (jobs.some(({ isOnNode24 }) => isOnNode24)) node24 = await prepareNode24()
  const startedMs = Date.now()
  const outcomes = await runAll(jobs, mostJobs)
  const failed = outcomes.filter(({ problem }) => problem !== null)
  const again =
    failed.length <= forgiven
      ? await runAll(
          failed.map(({ job }) => job),
          1,
        )
      : []
  const flaky = again.filter(({ problem }) => problem === null)
  const last = outcomes.map((outcome) => flaky.find(({ job }) => job === outcome.job) ?? outcome)
  const gaps = isFast ? reportGaps() : 0
  report(last, flaky, (Date.now() - startedMs) / 1000, gaps)
  return gaps === 0 && last.every(({ problem }) => problem === null)
}

function chosenJobs(): Job[] {
  const all = readdirSync(path.join(root, 'dist-test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.js'))
    .sort((a, b) => a.localeCompare(b, 'en'))
  if (positionals.length > 0)
    return positionals
      .flatMap((name) => named(all, name))
      .map((file) => ({ ...jobOf(file), isOnNode24: options.node24 }))
  if (options.change) return changeJobs(all)
  return isFull ? fullJobs(all, options.only ?? null) : fastJobs(all)
}

/** A file of test/ or dist-test/, with or without its extension, or a folder. */
function named(all: readonly string[], name: string): string[] {
  const below = path
    .relative(root, path.resolve(name))
    .replace(/^(dist-)?test\//, '')
    .replace(/\.tsx?$/, '.js')
  return all.filter((file) => file === below || file.startsWith(`${below}/`) || file.startsWith(`${below}.`))
}

/**
 * Runs the jobs, at most `most` at a time. More than there are cores run only while the cores have idle time: on a slow
 * machine the waits of tests that compete for it would exceed their limits.
 */
async function runAll(jobs: readonly Job[], most: number): Promise<Outcome[]> {
  const waiting = [...jobs]
  const outcomes: Outcome[] = []
  const daemons: PooledDaemon[] = []
  const running = new Set<Promise<void>>()
  const cores = new Cores()
  const always = Math.min(most, os.availableParallelism())
  const start = (job: Job) => {
    const daemon = daemons.pop() ?? new PooledDaemon()
    const ended = runOne(job, daemon).then((outcome) => {
      outcomes.push(outcome)
      daemons.push(daemon)
      running.delete(ended)
    })
    running.add(ended)
  }
  while (waiting.length > 0) {
    if (running.size < always || (running.size < most && cores.haveTime())) start(waiting.shift()!)
    // What has just started shows its load after a while.
    if (running.size >= always) await Promise.race([...running, delay(1000)])
  }
  await Promise.all(running)
  for (const daemon of daemons) await daemon.close()
  return outcomes
}

async function runOne(job: Job, daemon: PooledDaemon): Promise<Outcome> {
  const outcome = await run(job, await daemon.envOf(job))
  const { problem, pass, seconds, cpuSeconds } = outcome
  if (problem !== null) console.log(readable(job))
  console.log(
    `${problem === null ? 'ok' : 'not ok'} - ${job.name} # ${problem ?? `${pass} passed`}, ${seconds.toFixed(1)} s, ${cpuSeconds.toFixed(1)} s of CPU`,
  )
  return outcome
}

/** The machine's cores, and how busy they were between two questions. */
class Cores {
  #last = ticks()

  /** Whether they were idle for a tenth of the time since the last question. */
  haveTime(): boolean {
    const now = ticks()
    const all = now.all - this.#last.all
    const idle = now.idle - this.#last.idle
    this.#last = now
    return idle > all / 10
  }
}

function ticks(): { all: number; idle: number } {
  const times = os.cpus().map((cpu) => cpu.times)
  const sum = (values: number[]) => values.reduce((a, b) => a + b, 0)
  return { all: sum(times.flatMap((one) => Object.values(one))), idle: sum(times.map((one) => one.idle)) }
}

/** A daemon that test files share one after the other; started for the first of them. */
class PooledDaemon {
  #hosted: HostedDaemon | null = null

  async envOf({ files, env, isOnNode24 }: Job): Promise<Record<string, string>> {
    const isUser = files.some((file) =>
      readFileSync(path.join(root, 'dist-test', file), 'utf8').includes('await sharedDaemon()'),
    )
    // A job with an environment or a Node.js of its own needs a daemon with it.
    if (!isUser || isOnNode24 || Object.keys(env).length > 0) return {}
    // Loaded late: it reads from the environment which program is tested.
    const { hostSharedDaemon } = await import('./support/shared-daemon.ts')
    Object.assign(process.env, programOf(ownRuntime))
    this.#hosted ??= await hostSharedDaemon()
    return this.#hosted.env
  }

  async close(): Promise<void> {
    await this.#hosted?.close()
  }
}

/** Complete runs test the program as packages ship it. A file by name tests the checkout, which is built faster. */
function programOf(runtime: NodeRuntime): Record<string, string> {
  if (positionals.length > 0) return {}
  return { TEST_PROGRAM: path.join(runtime.root, 'dist-test/program/bin/pipectl.js') }
}

function run(job: Job, extraEnv: Record<string, string>): Promise<Outcome> {
  // A file and no pipe: a process that a test left behind would keep a pipe open.
  const to = openSync(outputOf(job), 'w')
  const files = job.files.map((file) => path.join('dist-test', file))
  const entry = files.length === 1 ? files[0]! : 'dist-test/support/run-together.js'
  const runtime = job.isOnNode24 ? node24 : ownRuntime
  const startedMs = Date.now()
  const child = spawn(runtime.execPath, ['--import=./test/support/plain-children.mjs', entry], {
    cwd: runtime.root,
    env: {
      ...process.env,
      ...programOf(runtime),
      ...runtime.env,
      TAP_TIMEOUT: String(timeoutSeconds),
      TEST_SCALE: String(scale),
      TEST_FILES: files.join(' '),
      ...job.env,
      ...extraEnv,
    },
    stdio: ['ignore', to, to],
    detached: true,
  })
  closeSync(to)
  const killGroup = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  process.once('exit', killGroup)
  // tap ends by itself what takes longer, and reports where it was.
  const timer = setTimeout(killGroup, (timeoutSeconds + 30) * 1000)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      process.off('exit', killGroup)
      killGroup()
      const seconds = (Date.now() - startedMs) / 1000
      resolve(outcomeOf(job, readFileSync(outputOf(job), 'utf8'), code ?? signal, seconds))
    })
  })
}

function outputOf(job: Job): string {
  return path.join(outputs, `${job.name.replaceAll(/[/ ]/g, '_')}.txt`)
}

function outcomeOf(job: Job, text: string, end: number | string | null, seconds: number): Outcome {
  const summary = [...text.matchAll(/^# (\{ total: .*\})$/gm)].at(-1)?.[1] ?? ''
  const count = (name: string) => Number(new RegExp(`${name}: (\\d+)`).exec(summary)?.[1] ?? 0)
  const [pass, fail, skip] = [count('pass'), count('fail'), count('skip')]
  const problem = () => {
    if (summary === '') return `ended with ${end}, without a summary`
    if (fail > 0) return `${fail} failed`
    if (end !== 0) return `ended with ${end}`
    return pass + skip === 0 ? 'nothing was tested' : null
  }
  const cpuSeconds = Number(/^# cpu: ([\d.]+) s$/m.exec(text)?.[1] ?? 0)
  return { job, problem: problem(), pass, fail, skip, seconds, cpuSeconds }
}

/** The output without what passed. */
function readable(job: Job): string {
  const text = readFileSync(outputOf(job), 'utf8')
  return text
    .split('\n')
    .filter((line) => !/^ *(ok |# Subtest|1\.\.|# time=|$)/.test(line))
    .join('\n')
}

/** Returns the number of operations and error codes that the fast tier should have exercised and did not. */
function reportGaps(): number {
  const gaps = catalogueGaps(readObservations())
  for (const gap of gaps) console.log(`not ok - catalogue # not exercised: ${gap}`)
  return gaps.length
}

function report(
  outcomes: readonly Outcome[],
  flaky: readonly Outcome[],
  seconds: number,
  gaps: number,
): void {
  const failed = outcomes.filter(({ problem }) => problem !== null)
  const sum = (count: (outcome: Outcome) => number) => outcomes.reduce((all, one) => all + count(one), 0)
  const pass = sum((one) => one.pass)
  const skip = sum((one) => one.skip)
  // A file that dies has failed as well.
  const fail = sum((one) => (one.problem === null ? 0 : Math.max(1, one.fail))) + gaps
  for (const { job } of failed) console.log(`#   failed: ${job.name}`)
  for (const { job } of flaky) console.log(`#   flaky, passed only alone: ${job.name}`)
  console.log(
    `# ${outcomes.length} jobs, ${failed.length} failed, ${Math.round(seconds)} s, ${Math.round(sum((one) => one.cpuSeconds))} s of CPU`,
  )
  console.log(`# { total: ${pass + fail + skip}, pass: ${pass}, fail: ${fail}, skip: ${skip} }`)
}

process.exitCode = (await main()) ? 0 : 1
