/** Power cuts on a whole data directory, opened by the real daemon. */
import t from 'tap'
import { type Cut, randomCut } from '../../../support/faults/power-cut.ts'
import { withoutSyncs } from '../../../support/faults/power-cut-run.ts'
import { checkWholeCuts, recordDaemon } from '../../../support/faults/whole-power-cut.ts'
import { cutWork, images } from '../cut-tests.ts'

const count = Math.ceil(images * 0.04)
const work = cutWork(t, 'whole-directory')
const recording = await recordDaemon(work)
t.teardown(() => recording.sink.stop())
const bad = (outcomes: Awaited<ReturnType<typeof checkWholeCuts>>) =>
  outcomes.filter(({ verdict }) => verdict !== null)

t.test(`${count} power cuts: the daemon starts, delivers what it acknowledged, accepts more`, async (t) => {
  const seeds = Array.from({ length: count }, (_, index) => 7_000_000 + index)
  const cuts = seeds.map((seed) => randomCut(seed, recording.calls.length))
  const outcomes = await checkWholeCuts(recording, work, cuts)
  t.equal(outcomes.length, count)
  t.same(bad(outcomes), [])
})

t.test('control: on a disk that does not sync something acknowledged is lost', async (t) => {
  const lying = { ...recording, ...withoutSyncs({ ...recording, from: 0 }, () => true) }
  const before = Math.floor(recording.calls.length * 0.9)
  const cuts = [1, 2].map((seed): Cut => ({ before, data: 'none', names: 'journal', seed }))
  const outcomes = bad(await checkWholeCuts(lying, work, cuts))
  t.ok(
    outcomes.some(({ verdict }) => /is gone|acknowledged and not delivered/.test(verdict ?? '')),
    JSON.stringify(outcomes),
  )
})
