/** The checks of power cuts see a disk that lies: each kind of sync that is not done costs something acknowledged. */
import t from 'tap'
import { checkCuts, type Recording, recordRun, withoutSyncs } from '../../../support/faults/power-cut-run.ts'
import { bad, cutWork } from '../cut-tests.ts'

const lies = {
  /** The syncs that `synchronous = NORMAL` omits. */
  'no sync of a WAL': (file: string) => file.endsWith('-wal'),
  'no sync of a directory': (file: string) => file.endsWith('/buffer'),
  'no sync at all': () => true,
}

/** One of sixteen cuts at the latest. */
async function isNoticed(lying: Recording, work: string): Promise<boolean> {
  for (let seed = 0; seed < 16; seed += 4) {
    const seeds = [seed, seed + 1, seed + 2, seed + 3]
    const outcomes = bad(await checkCuts(lying, work, seeds, { checksAllKeys: false }))
    if (outcomes.some(({ verdict }) => /is missing|does not open/.test(verdict ?? ''))) return true
  }
  return false
}

t.test('control: without syncs power cuts lose what was acknowledged', async (t) => {
  const work = cutWork(t, 'controls')
  const recording = await recordRun(work, 'rolls')
  for (const [lie, isLost] of Object.entries(lies)) {
    const lying = withoutSyncs(recording, ({ path: file }) => isLost(file))
    t.ok(await isNoticed(lying, work), lie)
  }
})
