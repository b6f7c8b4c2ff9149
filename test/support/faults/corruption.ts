/** Bit flips in the files of a buffer, by seed: sealed segments, the active one, its WAL. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import { beginWithLargePages } from '../large-pages.ts'
import { Checker } from './checker.ts'
import type { DamageTask } from './damage-check.ts'
import { diskBytes, workDirectory } from './every-step.ts'
import { soundDisk } from './library.ts'
import { readImage, writeImage } from './power-cut.ts'
import { seeded } from './random.ts'
import type { Acknowledged, Verdict } from './store-check.ts'
import { pipes, runProgram } from './store-run.ts'

/** Small: many messages share a page, some go over several. */
const bytes = 900

/** Removed with the test. */
export function corruptionWork(t: Test, name: string): string {
  const work = workDirectory(`corruption-${name}`)
  t.teardown(() => rmSync(work, { recursive: true, force: true }))
  return work
}

export type Kind = 'sealed' | 'active'

export interface Corruptible {
  image: ReturnType<typeof readImage>
  acknowledged: Acknowledged[]
}

/**
 * Some sealed segments and an active one with a WAL, as a killed process leaves them. `largePages`: the one of `kind` has
 * them, or is the first of those.
 */
export async function makeCorruptible(
  work: string,
  { kind, largePages }: { kind?: Kind; largePages?: boolean } = {},
): Promise<Corruptible> {
  const root = path.join(work, 'root')
  mkdirSync(root, { recursive: true })
  const env = soundDisk(work, diskBytes)
  if (largePages) beginWithLargePages(path.join(root, 'buffer'))
  const large = { segmentMaxBytes: 16 * 1024 * 1024 }
  const append = [{ do: 'open' }, { do: 'append', count: 130, bytes }] as const
  const runs = !largePages
    ? [{ steps: [...append, { do: 'exit' }] as const }]
    : kind === 'active'
      ? [{ settings: large, steps: [...append, { do: 'exit' }] as const }]
      : [
          { settings: large, steps: [...append, { do: 'close' }] as const },
          { from: 130, steps: [...append, { do: 'exit' }] as const },
        ]
  const acknowledged: Acknowledged[] = []
  for (const run of runs) acknowledged.push(...(await runProgram({ root, env, ...run })).acknowledged)
  const image = new Map([...readImage(root)].filter(([name]) => !name.endsWith('-shm')))
  return { image, acknowledged }
}

export interface Flip {
  seed: number
  file: string
  /** One or several bits near one another. */
  bits: { offset: number; mask: number }[]
}

function randomFlip(seed: number, image: Corruptible['image'], kind: Kind): Flip {
  const random = seeded(seed)
  const segments = [...image.keys()].filter((name) => name.endsWith('.db') && /\d{20}/.test(name)).sort()
  const active = segments.at(-1)!
  const files = kind === 'sealed' ? segments.slice(0, -1) : [active, `${active}-wal`]
  const filled = files.filter((file) => (image.get(file)?.length ?? 0) > 0)
  const file = random.pick(filled)
  const length = image.get(file)!.length
  const offset = random.below(length)
  const count = random.next() < 0.7 ? 1 : 1 + random.below(64)
  const bits = Array.from({ length: count }, () => ({
    offset: Math.min(length - 1, offset + random.below(count === 1 ? 1 : 512)),
    mask: 1 << random.below(8),
  }))
  return { seed, file, bits }
}

/** Seqs in a segment, by the names of it and the next one. */
function seqsOf(file: string, image: Corruptible['image']): { firstSeq: number; lastSeq: number } {
  const firsts = [...image.keys()].flatMap((name) => /(\d{20})\.db$/.exec(name)?.[1] ?? []).map(Number)
  const firstSeq = Number(/(\d{20})/.exec(file)?.[1])
  const next = Math.min(Number.MAX_SAFE_INTEGER, ...firsts.filter((first) => first > firstSeq))
  return { firstSeq, lastSeq: next - 1 }
}

export async function checkFlips(
  { image, acknowledged }: Corruptible,
  work: string,
  kind: Kind,
  seeds: readonly number[],
): Promise<{ flip: Flip; verdict: Verdict }[]> {
  const left = [...seeds]
  const outcomes: { flip: Flip; verdict: Verdict }[] = []
  const runner = async () => {
    const checker = new Checker<DamageTask>(soundDisk(work, diskBytes), 'damage-check')
    for (let seed = left.shift(); seed !== undefined; seed = left.shift()) {
      const flip = randomFlip(seed, image, kind)
      const root = path.join(work, `flip-${seed}`)
      writeImage(image, root)
      const content = readFileSync(path.join(root, flip.file))
      for (const { offset, mask } of flip.bits) content[offset] = content[offset]! ^ mask
      writeFileSync(path.join(root, flip.file), content, { mode: 0o600 })
      const task = { root, pipes, acknowledged, bytes, ...seqsOf(flip.file, image) }
      outcomes.push({ flip, verdict: await checker.check(task) })
      rmSync(root, { recursive: true, force: true })
    }
    checker.close()
  }
  await Promise.all([runner(), runner()])
  return outcomes
}

/** One damaged directory that the caller has made itself. */
export async function checkDamaged(
  root: string,
  work: string,
  acknowledged: Acknowledged[],
): Promise<Verdict> {
  const checker = new Checker<DamageTask>(soundDisk(work, diskBytes), 'damage-check')
  const verdict = await checker.check({ root, pipes, acknowledged, bytes, firstSeq: 1, lastSeq: 0 })
  checker.close()
  return verdict
}
