/** Power cuts while several clients append at once, and while segments are rolled meanwhile. */
import { recordRun } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

testCuts('side by side', (work) => recordRun(work, 'side by side'), { share: 0.25, firstSeed: 70_000 })
