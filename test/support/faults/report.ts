/**
 * Lists what fails: `node --import=tsx test/support/faults/report.ts SCENARIO|all FAULT|all [all|edges]`.
 */
import { rmSync } from 'node:fs'
import path from 'node:path'
import { type CliScenarioName, cliScenarioNames, openCliScenario } from './cli-scenarios.ts'
import { everyStep, type Fault, faults, summary, workDirectory } from './every-step.ts'
import { openStoreScenario, type StoreScenarioName, storeScripts } from './store-scenarios.ts'

const [scenarioName = 'all', faultName = 'all', which = 'all'] = process.argv.slice(2)
const names = scenarioName === 'all' ? [...Object.keys(storeScripts), ...cliScenarioNames] : [scenarioName]
const chosen = faultName === 'all' ? Object.keys(faults) : faultName.split(',')

for (const name of names) {
  const work = workDirectory(name.replaceAll(' ', '-'))
  const isOfStore = name in storeScripts
  const scenario = isOfStore
    ? await openStoreScenario(name as StoreScenarioName, work)
    : await openCliScenario(name as CliScenarioName, work)
  for (const fault of chosen) {
    const began = Date.now()
    const outcomes = await everyStep(scenario, fault as Fault, work, { which: which as 'all' })
    const bad = outcomes.filter(({ verdict }) => verdict !== null).length
    console.log(
      `${name} × ${fault}: ${outcomes.length} runs, ${bad} bad, ${Math.round((Date.now() - began) / 1000)} s`,
    )
    for (const line of summary(outcomes)) console.log(`  ${line}`)
  }
  scenario.close()
  rmSync(work, { recursive: true, force: true })
}
rmSync(path.dirname(workDirectory('x')), { recursive: true, force: true })
