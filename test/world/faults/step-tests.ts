/** A test for one scenario under some faults; see every-step.ts. */
import { rmSync } from 'node:fs'
import t from 'tap'
import {
  type CliScenarioName,
  cliScenarioNames,
  openCliScenario,
} from '../../support/faults/cli-scenarios.ts'
import { everyStep, type Fault, summary, workDirectory } from '../../support/faults/every-step.ts'
import { openStoreScenario, type StoreScenarioName } from '../../support/faults/store-scenarios.ts'
import { scale, seed } from '../../support/scale.ts'

/**
 * `--scale 10` and more samples all calls and takes all faults, `--scale 100` takes every call; otherwise it is a sample of the
 * edges. Every call with every fault would take some 70,000 s of CPU: twelve scenarios of up to 600 calls.
 */
const isWide = scale >= 10
const isEveryCall = scale >= 100
/**
 * Runs for each fault in the sample, times the scale: a run on the buffer alone takes half a second of CPU, one through the
 * program two to three, and there are 12 such files in the full tier. TEST_SEED takes another sample.
 */
const sampledRuns = 2

/** A disk that fails once, in two ways, or that has no space left from then on. */
const someErrors: readonly Fault[] = ['EIO', 'ENOSPC', 'full disk']
/** A process that dies, half-way through its write where it is one. */
const someKills: readonly Fault[] = ['kill half-way']
const allErrors: readonly Fault[] = ['EIO', 'EIO from then on', 'ENOSPC', 'ENOSPC from then on', 'full disk']
const allKills: readonly Fault[] = ['kill before', 'kill half-way', 'kill after']

interface StepOptions {
  /** The errors of a sample. */
  errors?: readonly Fault[]
  /** Calls that a sample must not miss, as `rename buffer/….db`. */
  always?: RegExp
}

/** Runs the scenario with each error, then with each kill. */
export function testSteps(
  name: StoreScenarioName | CliScenarioName,
  { errors = someErrors, always }: StepOptions = {},
): void {
  const faults = isWide ? [...allErrors, ...allKills] : [...errors, ...someKills]
  const isCli = (cliScenarioNames as readonly string[]).includes(name)
  const most = isEveryCall ? undefined : sampledRuns * scale
  const which = isWide ? 'all' : 'edges'
  const sample = most === undefined ? 'all' : `at most ${most} each, seed ${seed}`
  t.test(`${name}: a fault at every step (${faults.join(', ')}; ${sample})`, async (t) => {
    const work = workDirectory(name.replaceAll(' ', '-'))
    const scenario = await (isCli
      ? openCliScenario(name as CliScenarioName, work)
      : openStoreScenario(name as StoreScenarioName, work))
    t.teardown(() => {
      scenario.close()
      rmSync(work, { recursive: true, force: true })
    })
    for (const fault of faults) {
      const outcomes = await everyStep(scenario, fault, work, { which, most, always, seed })
      t.ok(outcomes.length >= sampledRuns, `${fault}: ${outcomes.length} runs`)
      t.ok(
        outcomes.some(({ hit }) => hit !== ''),
        'and the fault happens',
      )
      t.same(summary(outcomes), [])
    }
  })
}
