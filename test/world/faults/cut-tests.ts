/** A test for seeded power cuts in one recorded run; see power-cut-run.ts. */
import { rmSync } from 'node:fs'
import t, { type Test } from 'tap'
import { workDirectory } from '../../support/faults/every-step.ts'
import { type CutOutcome, checkCuts, type Recording } from '../../support/faults/power-cut-run.ts'
import { scaled } from '../../support/scale.ts'

/** The images of all test files together. */
export const images = scaled(80)

export function cutWork(t: Test, name: string): string {
  const work = workDirectory(`power-cut-${name}`)
  t.teardown(() => rmSync(work, { recursive: true, force: true }))
  return work
}

export const bad = (outcomes: readonly CutOutcome[]) => outcomes.filter(({ verdict }) => verdict !== null)

/** `share`: of all images. `firstSeed`: test files do not repeat each other's cuts. */
export function testCuts(
  name: string,
  record: (work: string) => Promise<Recording>,
  {
    share,
    firstSeed = 0,
    checksAllKeys = true,
  }: { share: number; firstSeed?: number; checksAllKeys?: boolean },
): void {
  const count = Math.ceil(images * share)
  t.test(`${name}: ${count} power cuts lose nothing acknowledged and no idempotency key`, async (t) => {
    const work = cutWork(t, name)
    const seeds = Array.from({ length: count }, (_, index) => firstSeed + index)
    const outcomes = await checkCuts(await record(work), work, seeds, { checksAllKeys })
    t.equal(outcomes.length, count)
    t.same(bad(outcomes), [])
  })
}
