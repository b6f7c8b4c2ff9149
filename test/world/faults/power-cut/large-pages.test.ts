/** Power cuts on a segment with large pages; the start after them seals it, for it is larger than that one's segments. */
import { recordRun } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

testCuts('large pages', (work) => recordRun(work, 'large pages'), { share: 0.1, firstSeed: 4_000_000 })
