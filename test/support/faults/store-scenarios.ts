/** Scenarios on the buffer alone: its start, a roll, a drop, its stop, each a child process of well under a second. */
import { copyFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { Checker } from './checker.ts'
import { damageOldestSegment } from './damaged-base.ts'
import { diskBytes, type Ran, type Scenario } from './every-step.ts'
import { type FaultyDisk, type Plan, planText, soundDisk } from './library.ts'
import { type StoreSettings, undeletedFile } from './store.ts'
import type { Step } from './store-program.ts'
import { pipes, runProgram } from './store-run.ts'

const large = 5_000

export interface StoreScript {
  settings?: StoreSettings
  before: Step[]
  /** The oldest segment is damaged then. */
  isDamaged?: true
  /** A copy of another segment has the name of a newer generation of the oldest one then. */
  hidesOldest?: true
  /** Where a step is `arm`, faults begin there. */
  steps: Step[]
}

const some = (count: number) => ({ do: 'append', count, bytes: large }) as const
export const storeScripts = {
  'first start': { before: [], steps: [{ do: 'arm' }, { do: 'open' }, some(2), { do: 'exit' }] },
  'start after kill': {
    before: [{ do: 'open' }, some(11), { do: 'exit' }],
    steps: [{ do: 'arm' }, { do: 'open' }, some(2), { do: 'exit' }],
  },
  'start after stop': {
    before: [{ do: 'open' }, some(11), { do: 'close' }],
    steps: [{ do: 'arm' }, { do: 'open' }, some(2), { do: 'exit' }],
  },
  roll: {
    before: [{ do: 'open' }, some(1), { do: 'close' }],
    steps: [{ do: 'open' }, { do: 'arm' }, some(5), { do: 'exit' }],
  },
  /** A roll of a segment that is large enough for the thread that creates its index by pipe. */
  'index thread': {
    settings: { segmentMaxBytes: 8_600_000 },
    before: [{ do: 'open' }, { do: 'append', count: 9, bytes: 900_000 }, { do: 'close' }],
    steps: [
      { do: 'open' },
      { do: 'append', count: 1, bytes: 400_000 },
      { do: 'arm' },
      { do: 'append', count: 1, bytes: 200_000 },
      { do: 'await sealing' },
      some(2),
      { do: 'exit' },
    ],
  },
  drop: {
    settings: { deliveredMaxBytes: 0, maxBytes: 400 * 1024 },
    before: [{ do: 'open' }, some(12), { do: 'close' }],
    steps: [{ do: 'open' }, { do: 'deliver' }, { do: 'arm' }, some(6), { do: 'exit' }],
  },
  /** One message of the first segment is pending, the others are delivered. */
  compaction: {
    settings: { deliveredMaxBytes: 0, segmentMaxBytes: 150 * 1024 },
    before: [
      { do: 'open' },
      { ...some(1), pipe: 0 },
      { do: 'append', count: 8, bytes: 20_000, pipe: 1 },
      { do: 'close' },
    ],
    steps: [
      { do: 'open' },
      { do: 'deliver', pipe: 1 },
      { do: 'arm' },
      { ...some(2), pipe: 1 },
      { do: 'await compaction' },
      some(1),
      { do: 'exit' },
    ],
  },
  /** Segments with personal records, of which the newest one is being written. */
  erasure: {
    before: [
      { do: 'open' },
      { do: 'append personal', count: 3 },
      some(8),
      { do: 'append personal', count: 3 },
      some(8),
      { do: 'close' },
    ],
    steps: [
      { do: 'open' },
      { do: 'append personal', count: 2 },
      { do: 'arm' },
      some(1),
      { do: 'erase' },
      some(1),
      { do: 'exit' },
    ],
  },
  /** No message is delivered, and those of one pipe are too old. */
  'pipe retention': {
    settings: { segmentMaxBytes: 150 * 1024 },
    before: [
      { do: 'open' },
      { do: 'append', count: 4, bytes: 20_000, pipe: 0 },
      { do: 'append', count: 4, bytes: 20_000, pipe: 1 },
      { do: 'close' },
    ],
    steps: [
      { do: 'open' },
      { do: 'expire', pipe: 1 },
      { do: 'arm' },
      { ...some(1), pipe: 0 },
      { do: 'await compaction' },
      { ...some(1), pipe: 0 },
      { do: 'exit' },
    ],
  },
  salvage: {
    settings: { segmentMaxBytes: 120 * 1024 },
    before: [{ do: 'open' }, some(20), { do: 'close' }],
    isDamaged: true,
    steps: [{ do: 'arm' }, { do: 'open' }, { do: 'await salvage' }, { do: 'exit' }],
  },
  misnamed: {
    // Three messages a segment: the last one has two, and no roll races with the exit.
    before: [{ do: 'open' }, some(20), { do: 'exit' }],
    hidesOldest: true,
    steps: [{ do: 'arm' }, { do: 'open' }, some(1), { do: 'exit' }],
  },
  stop: {
    before: [],
    steps: [{ do: 'open' }, some(6), { do: 'arm' }, { do: 'close' }],
  },
} as const satisfies Record<string, StoreScript>
export type StoreScenarioName = keyof typeof storeScripts

/** Prepares its base in `work`. Call `close()`. */
export async function openStoreScenario(name: StoreScenarioName, work: string): Promise<Scenario> {
  const script: StoreScript = storeScripts[name]
  const base = path.join(work, 'base')
  mkdirSync(base, { recursive: true })
  const sound = soundDisk(work, diskBytes)
  const { settings } = script
  const prepared = await runProgram({ root: base, settings, steps: script.before, env: sound })
  const damaged = script.isDamaged ? damageOldestSegment(base, prepared.acknowledged) : null
  if (script.hidesOldest) hideOldestSegment(base)
  const kept = damaged?.kept ?? prepared.acknowledged
  const checker = new Checker(sound)
  return {
    name,
    base,
    async run(root: string, disk: FaultyDisk, plan: Plan | null): Promise<Ran> {
      const { controlFile, env } = disk
      const arming = { controlFile, plan: planText(plan) }
      const ran = await runProgram({ root, settings, steps: script.steps, from: 1000, env, arming })
      const acknowledged = [...kept, ...ran.acknowledged]
      const delivered = { ...prepared.delivered, ...ran.delivered }
      const personal = [...prepared.personal, ...ran.personal]
      return {
        end: `${ran.end}${ran.waited ? ' after waiting for space' : ''}${ran.failed > 0 ? ' with rejected messages' : ''}${ran.fatal === null ? '' : ` (${ran.fatal})`}`,
        gaveUp: ran.fatal,
        check: async () =>
          (ran.isErased ? undeletedFile(root) : null) ??
          (await checker.check({ root, pipes, acknowledged, delivered, personal, checksAllKeys: true })) ??
          damaged?.check(root) ??
          null,
      }
    },
    close: () => checker.close(),
  }
}

function hideOldestSegment(root: string): void {
  const dir = path.join(root, 'buffer')
  const [oldest, other] = listSegments(dir)
  copyFileSync(segmentFile(dir, other!), segmentFile(dir, { firstSeq: oldest!.firstSeq, generation: 3 }))
}
