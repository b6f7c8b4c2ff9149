/**
 * Runs after all other tests (`npm test`: clear .tap/observed, test/run-files.ts, then this): fails when an operation or an error code of
 * the catalogue was never exercised, or when something was answered that the catalogue does not list.
 */
import { rmSync } from 'node:fs'
import { operationTable } from '../src/contract/operations.ts'
import { catalogueGaps } from './support/catalogue-gaps.ts'
import { observedDir } from './support/coverage.ts'
import { readObservations } from './support/observations.ts'

if (process.argv[2] === '--clear') {
  rmSync(observedDir, { recursive: true, force: true })
} else {
  const observations = readObservations()
  const gaps = catalogueGaps(observations)
  for (const gap of gaps) console.error(`not exercised: ${gap}`)
  console.error(`catalogue: ${operationTable.length} operations, ${gaps.length} gaps`)
  process.exitCode = gaps.length > 0 || observations.length === 0 ? 1 : 0
}
