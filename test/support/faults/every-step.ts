/**
 * Runs a scenario once for every call that it makes on its disk, each time with a fault at that call, restarts it on a
 * good disk and asks its oracle. A scenario knows how its directory is prepared, what runs and what must be true then.
 *
 *   const scenario = await openScenario(work)
 *   for await (const outcome of everyStep(scenario, 'EIO', { work })) …   outcome.verdict null: all is well
 */
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type FaultyDisk, faultyDisk, type Kind, type Plan, unnumbered } from './library.ts'
import { seeded } from './random.ts'
import type { Verdict } from './store-check.ts'
import { type Call, readTrace } from './trace.ts'

export interface Scenario {
  name: string
  /** Copied for each run. */
  base: string
  /** Runs it below `root`, a copy of the base, under the plan. Returns what it promised, for the oracle. */
  run(root: string, disk: FaultyDisk, plan: Plan | null): Promise<Ran>
  close(): void
}

export interface Ran {
  /** How it ended, in a word: for people. */
  end: string
  /** Its last words where it ended itself although the daemon must not: on a disk that is only full. */
  gaveUp: string | null
  /** Without faults, on the same directory: null when all is well. */
  check(): Promise<Verdict>
}

export const faults = {
  EIO: { error: 'EIO' },
  'EIO from then on': { error: 'EIO', until: 'always' },
  ENOSPC: { error: 'ENOSPC' },
  'ENOSPC from then on': { error: 'ENOSPC', until: 'always' },
  'full disk': { full: 'yes' },
  'kill before': { kill: 'before' },
  'kill half-way': { kill: 'half' },
  'kill after': { kill: 'after' },
} as const satisfies Record<string, Omit<Plan, 'at'>>
export type Fault = keyof typeof faults

/** The ballast is a part of the disk's size: a small disk gets a small one, which costs no time. */
export const diskBytes = 16 * 1024 * 1024

export interface Outcome {
  scenario: string
  fault: Fault
  at: number
  /** The call that was hit: kind and path below the root. Empty: the run ended before it. */
  hit: string
  end: string
  verdict: Verdict
}

export interface Range {
  /** `edges`: of calls that do the same to files of one sort, after the same call, only the first and the last. */
  which?: 'all' | 'edges'
  /** So many of them, by `seed`; all, where there are fewer. */
  most?: number
  /** Calls, as `rename buffer/….db`, that are taken beside them: what a scenario is about. */
  always?: RegExp
  seed?: number
  jobs?: number
  /** Only calls with this in their path. */
  match?: string
}

/** A directory for runs; in memory where that is possible, because syncs are plenty. Removed by the caller. */
export function workDirectory(name: string): string {
  const parent = path.join(
    process.platform === 'linux' ? '/dev/shm' : os.tmpdir(),
    `pipectl-faults-${process.pid}`,
  )
  const directory = path.join(parent, name)
  mkdirSync(directory, { recursive: true })
  return directory
}

const countedCalls = new WeakMap<Scenario, Promise<Call[]>>()

/** The calls that the scenario makes without a fault, counted once. Throws when it does not pass its own oracle then. */
function callsOf(scenario: Scenario, work: string): Promise<Call[]> {
  const calls = countedCalls.get(scenario) ?? countCalls(scenario, work)
  countedCalls.set(scenario, calls)
  return calls
}

async function countCalls(scenario: Scenario, work: string): Promise<Call[]> {
  const { calls, verdict, end, trace } = await runOnce(scenario, path.join(work, 'count'), null)
  if (verdict !== null) throw new Error(`${scenario.name} fails without a fault (${end}): ${verdict}`)
  return trace.filter(({ kind }) => !unnumbered.includes(kind)).slice(-calls)
}

export async function everyStep(
  scenario: Scenario,
  fault: Fault,
  work: string,
  { which = 'all', most = Number.POSITIVE_INFINITY, always, seed = 1, jobs = 2, match = '' }: Range = {},
): Promise<Outcome[]> {
  const calls = (await callsOf(scenario, work)).filter(({ path: called }) => called.includes(match))
  const chosen = which === 'all' ? calls.map((_, index) => index) : edgesOf(calls)
  const worth = chosen.filter((index) => isWorth(fault, calls[index]!.kind))
  const isTaken = (index: number) => always?.test(`${calls[index]!.kind} ${calls[index]!.path}`) === true
  const { sample, rest } = sampleOf(
    worth.filter((index) => !isTaken(index)),
    most,
    seed,
  )
  const left = [...worth.filter(isTaken), ...sample]
  const outcomes: Outcome[] = []
  const runner = async () => {
    for (let index = left.shift(); index !== undefined; index = left.shift()) {
      const at = index + 1
      const { hit, end, gaveUp, verdict } = await runOnce(scenario, path.join(work, `at-${at}`), {
        ...faults[fault],
        at,
        match: match === '' ? undefined : match,
      })
      const givesUp = fault === 'full disk' && gaveUp !== null ? `gives up on a full disk: ${gaveUp}` : null
      outcomes.push({ scenario: scenario.name, fault, at, hit, end, verdict: verdict ?? givesUp })
      // Not every run comes as far as the one that was counted: another call stands in for one that was not made.
      if (hit === '') left.push(...rest.splice(0, 1))
    }
  }
  await Promise.all(Array.from({ length: jobs }, runner))
  return outcomes.sort((a, b) => a.at - b.at)
}

/** Only what makes something grow notices that a disk is full. */
function isWorth(fault: Fault, kind: Kind): boolean {
  return !/ENOSPC|full/.test(fault) || ['create', 'write', 'mkdir', 'truncate'].includes(kind)
}

/** `sample` in their order, what is not in it in none. */
function sampleOf(all: readonly number[], most: number, seed: number): { sample: number[]; rest: number[] } {
  const random = seeded(seed)
  const sample = [...all]
  const rest: number[] = []
  while (sample.length > most) rest.push(...sample.splice(random.below(sample.length), 1))
  return { sample, rest }
}

function edgesOf(calls: readonly Call[]): number[] {
  const sort = (index: number) => {
    const call = calls[index]
    return call === undefined
      ? ''
      : `${call.kind} ${path.basename(call.path).replace(/[0-9a-f]*\d[0-9a-f]*/g, '#')}`
  }
  const places = new Map<string, { first: number; last: number }>()
  for (const index of calls.keys()) {
    const between = [sort(index - 1), sort(index)].join()
    const { first } = places.get(between) ?? { first: index }
    places.set(between, { first, last: index })
  }
  const edges = new Set([...places.values()].flatMap(({ first, last }) => [first, last]))
  return [...edges].sort((a, b) => a - b)
}

async function runOnce(
  scenario: Scenario,
  directory: string,
  plan: Plan | null,
): Promise<{ calls: number; hit: string; trace: Call[]; verdict: Verdict } & Omit<Ran, 'check'>> {
  const root = path.join(directory, 'root')
  mkdirSync(directory, { recursive: true })
  cpSync(scenario.base, root, { recursive: true })
  const disk = faultyDisk(root, path.join(directory, 'work'), { diskBytes, trace: plan === null })
  try {
    const ran = await scenario.run(root, disk, plan)
    const { matched, lastHit } = disk.counts()
    const hit = lastHit.replace(`${root}/`, '')
    const trace = plan === null ? readTrace(disk.traceFile) : []
    const { end, gaveUp } = ran
    return { calls: matched, hit, trace, end, gaveUp, verdict: await ran.check() }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Outcomes that are not well, as `verdict · end · first call … last call (how many)`. */
export function summary(outcomes: readonly Outcome[]): string[] {
  const groups = new Map<string, Outcome[]>()
  for (const outcome of outcomes) {
    if (outcome.verdict === null) continue
    // Numbers differ from run to run: seqs, messages.
    const what = `${outcome.scenario} × ${outcome.fault}: ${outcome.verdict}; ended ${outcome.end}`.replace(
      /\/\S*\/root\/|\d+/g,
      '#',
    )
    groups.set(what, [...(groups.get(what) ?? []), outcome])
  }
  return [...groups].map(([what, group]) => {
    const calls = group.map(({ at, hit }) => `${at} ${hit.replace(/0{8,}/, '…')}`)
    return `${what}; ${group.length} times: ${calls.slice(0, 12).join(', ')}${calls.length > 12 ? ', …' : ''}`
  })
}
