/** Power cuts around a compaction. */
import { recordRun } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

testCuts('compaction', (work) => recordRun(work, 'compaction'), { share: 0.25 })
