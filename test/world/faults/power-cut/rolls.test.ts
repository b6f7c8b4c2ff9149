/** Power cuts while segments are rolled and dropped, at a stop and at the next start. */
import { recordRun } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

testCuts('rolls', (work) => recordRun(work, 'rolls'), { share: 0.25 })
