/** Power cuts around a deletion of records. */
import { recordRun } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

testCuts('erasure', (work) => recordRun(work, 'erasure'), { share: 0.25 })
