/** Power cuts after a crash and a restart: what was recovered and answered from again is durable. */
import path from 'node:path'
import { recordKilledRun } from '../../../support/faults/power-cut-run.ts'
import { testCuts } from '../cut-tests.ts'

for (const atSync of [1, 3, 4, 6, 8]) {
  const name = `restart after a kill at sync ${atSync}`
  const share = 0.05
  testCuts(name, (work) => recordKilledRun(path.join(work, 'run'), atSync), {
    share,
    firstSeed: atSync * 10_000,
  })
}
