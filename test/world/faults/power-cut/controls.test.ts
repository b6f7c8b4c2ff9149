/** The checks of power cuts see a disk that lies: each kind of sync that is not done costs something acknowledged. */
import t from 'tap'
import { checkCuts, recordRun, withoutSyncs } from '../../../support/faults/power-cut-run.ts'
import { bad, cutWork } from '../cut-tests.ts'

const lies = {
  /** What `synchronous = NORMAL` leaves out. */
  'no sync of a WAL': (file: string) => file.endsWith('-wal'),
  'no sync of a directory': (file: string) => file.endsWith('/buffer'),
  'no sync at all': () => true,
}

t.test('control: without syncs power cuts lose what was acknowledged', async (t) => {
  const work = cutWork(t, 'controls')
  const recording = await recordRun(work, 'rolls')
  for (const [lie, isLost] of Object.entries(lies)) {
    const lying = withoutSyncs(recording, ({ path: file }) => isLost(file))
    const seeds = Array.from({ length: 16 }, (_, index) => index)
    const outcomes = bad(await checkCuts(lying, work, seeds, { checksAllKeys: false }))
    t.ok(
      outcomes.some(({ verdict }) => /is missing|does not open/.test(verdict ?? '')),
      `${lie}: ${outcomes.length} of ${seeds.length} cuts`,
    )
  }
})
