/**
 * Power cuts on the buffer: records a run of it, cuts the power at hundreds of moments, and asks the oracle about every
 * directory that could be left.
 *
 *   rolls        rolls, drops, a stop and a start
 *   side by side clients that do not wait for each other: groups of messages, rolled meanwhile
 *   large pages  a stop and a start of a segment with large pages
 *   compaction   a compaction between appends, and a start after it
 *   erasure      records are deleted between appends, and a start after it
 *   restarts     killed before a sync of a WAL, started again, the same requests repeated
 */
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { beginWithLargePages } from '../large-pages.ts'
import { Checker } from './checker.ts'
import { diskBytes } from './every-step.ts'
import { type FaultyDisk, faultyDisk, soundDisk } from './library.ts'
import { type Cut, type Image, imagesAfter, randomCut, readImage, writeImage } from './power-cut.ts'
import { type StoreSettings, undeletedFile } from './store.ts'
import type { Verdict } from './store-check.ts'
import type { Step } from './store-program.ts'
import { type Promised, pipes, promisedIn, runProgram } from './store-run.ts'
import { type Call, readTrace } from './trace.ts'

export interface Recording {
  root: string
  calls: Call[]
  /** Cuts come from this call on. */
  from: number
  /** On the disk before the first call; nothing when it is not given. */
  base?: Image
  /** The promises before the first call. */
  promised?: Promised
}

const some = (count: number, pipe?: number): Step => ({ do: 'append', count, bytes: 5_000, pipe })
const runs = {
  rolls: {
    settings: { deliveredMaxBytes: 100 * 1024, maxBytes: 400 * 1024 },
    steps: [
      ...([{ do: 'open' }, some(12), { do: 'deliver' }, some(12), { do: 'close' }] as const),
      ...([{ do: 'open' }, some(8), { do: 'deliver' }, some(12), { do: 'exit' }] as const),
    ],
  },
  compaction: {
    settings: { deliveredMaxBytes: 0, segmentMaxBytes: 150 * 1024 },
    steps: [
      ...([{ do: 'open' }, some(1, 0), some(30, 1), { do: 'deliver', pipe: 1 }, some(2, 1)] as const),
      ...([{ do: 'await compaction' }, some(3), { do: 'close' }] as const),
      ...([{ do: 'open' }, some(3), { do: 'exit' }] as const),
    ],
  },
  erasure: {
    settings: {},
    steps: [
      ...([{ do: 'open' }, { do: 'append personal', count: 3 }, some(8)] as const),
      ...([{ do: 'append personal', count: 3 }, some(1), { do: 'erase' }, some(3), { do: 'close' }] as const),
      ...([{ do: 'open' }, some(3), { do: 'exit' }] as const),
    ],
  },
  'side by side': {
    settings: { segmentMaxBytes: 150 * 1024 },
    steps: [
      ...([{ do: 'open' }, { do: 'append side by side', count: 60, bytes: 3_000, clients: 5 }] as const),
      { do: 'close' },
      ...([{ do: 'open' }, { do: 'append side by side', count: 30, bytes: 3_000, clients: 3 }] as const),
      { do: 'exit' },
    ],
  },
  'large pages': {
    settings: { segmentMaxBytes: 16 * 1024 * 1024 },
    steps: [
      ...([{ do: 'open' }, some(40), { do: 'close' }] as const),
      ...([{ do: 'open' }, some(20), { do: 'exit' }] as const),
    ],
  },
} as const satisfies Record<string, { settings: StoreSettings; steps: readonly Step[] }>

export async function recordRun(work: string, name: keyof typeof runs): Promise<Recording> {
  const { root, disk } = recorder(work)
  if (name === 'large pages') beginWithLargePages(path.join(root, 'buffer'))
  const base = readImage(root)
  const { settings, steps } = runs[name]
  const { end, fatal } = await runProgram({ root, settings, steps, env: disk.env })
  if (end !== 'SIGKILL' || fatal !== null) throw new Error(`the run to record ended ${end}: ${fatal}`)
  return { root: disk.env.FAULTS_ROOT!, calls: readTrace(disk.traceFile), from: 0, base }
}

/**
 * A program that is killed before the N-th sync of a WAL, and a second that sends the same messages with the same
 * idempotency keys: what it finds it acknowledges as a repeat. The power goes during the second run.
 */
export async function recordKilledRun(work: string, atSync: number): Promise<Recording> {
  const { root, disk } = recorder(work)
  disk.plan({ at: atSync, kill: 'before', kinds: ['sync', 'datasync'], match: '-wal' })
  const steps: Step[] = [{ do: 'open' }, some(10), { do: 'exit' }]
  const run = () => runProgram({ root, steps, env: disk.env })
  await run()
  if (disk.counts().hits !== 1) throw new Error(`there is no sync ${atSync} of a WAL`)
  const from = readTrace(disk.traceFile).length
  disk.plan(null)
  await run()
  return { root: disk.env.FAULTS_ROOT!, calls: readTrace(disk.traceFile), from }
}

function recorder(work: string): { root: string; disk: FaultyDisk } {
  const root = path.join(work, 'root')
  mkdirSync(root, { recursive: true })
  return { root, disk: faultyDisk(root, path.join(work, 'record'), { trace: true, diskBytes }) }
}

/** The same run on a disk that does not do some of its syncs: a check must notice. */
export function withoutSyncs({ calls, ...recording }: Recording, isLost: (call: Call) => boolean): Recording {
  const honest = calls.map((call): Call => {
    const isSync = call.kind === 'sync' || call.kind === 'datasync'
    return isSync && isLost(call) ? { ...call, kind: 'mark', data: Buffer.alloc(0) } : call
  })
  return { ...recording, calls: honest }
}

export interface CutOutcome {
  cut: Cut
  verdict: Verdict
}

/** `checksAllKeys`: idempotency keys of messages that were delivered must be known too. */
export async function checkCuts(
  { root, calls, from, base, promised }: Recording,
  work: string,
  seeds: readonly number[],
  { checksAllKeys = true } = {},
): Promise<CutOutcome[]> {
  const outcomes: CutOutcome[] = []
  const checkers = [1, 2].map(() => new Checker(soundDisk(work, diskBytes)))
  const cuts = seeds.map((seed) => randomCut(seed, calls.length, from))
  const images = imagesAfter(calls, root, cuts, base)
  const runner = async (checker: Checker) => {
    for (const { cut, image } of images) {
      const directory = path.join(work, `cut-${cut.seed}`)
      writeImage(image, directory)
      const { acknowledged, delivered, personal, isErased } = promisedBefore(calls, cut.before)
      const before = promised?.acknowledged ?? []
      const task = {
        root: directory,
        pipes,
        acknowledged: [...before, ...acknowledged],
        delivered,
        personal,
        checksAllKeys,
      }
      const verdict = (isErased ? undeletedFile(directory) : null) ?? (await checker.check(task))
      outcomes.push({ cut, verdict })
      rmSync(directory, { recursive: true, force: true })
    }
  }
  await Promise.all(checkers.map(runner))
  for (const checker of checkers) checker.close()
  return outcomes.sort((a, b) => a.cut.seed - b.cut.seed)
}

/** The promises that the program had made when the power went. */
function promisedBefore(calls: readonly Call[], before: number) {
  const said = calls.slice(0, before).filter(({ kind }) => kind === 'mark')
  return promisedIn(said.map(({ data }) => data.toString()).join(''))
}
