/** Further seeds of rolls.test.ts, beside it. */
import { recordRun } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

testCuts('rolls again', (work) => recordRun(work, 'rolls'), {
  share: 0.25,
  firstSeed: 1_000_000,
})
