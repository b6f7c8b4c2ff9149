/** Power cuts while segments are given their names back. */
import { recordRenaming } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

testCuts('renaming', recordRenaming, { share: 0.15, firstSeed: 3_000_000 })
