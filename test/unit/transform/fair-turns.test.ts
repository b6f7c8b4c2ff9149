import t from 'tap'
import { FairTurns } from '../../../src/delivery/transform/fair-turns.ts'
import { SlowLanes } from '../../../src/delivery/transform/slow-lanes.ts'

const job = (workspaceId: string, destinationId: string) => ({ workspaceId, destinationId })

t.test('workspaces share the time, and so do the lanes of each', async (t) => {
  const turns = new FairTurns<ReturnType<typeof job>>()
  for (let n = 0; n < 10; n += 1) turns.add(job('large', `lane-${n}`))
  turns.add(job('small', 'lane'))
  const times = new Map<string, number>()
  for (let turn = 0; turn < 200; turn += 1) {
    const next = turns.next()!
    turns.used(next, 10)
    for (const key of [next.workspaceId, `${next.workspaceId} ${next.destinationId}`])
      times.set(key, (times.get(key) ?? 0) + 10)
  }
  t.equal(times.get('large'), 1_000)
  t.equal(times.get('small'), 1_000)
  for (let n = 0; n < 10; n += 1) t.equal(times.get(`large lane-${n}`), 100)
})

t.test('one that comes waits for one turn, whatever the others have used', async (t) => {
  const turns = new FairTurns<ReturnType<typeof job>>()
  const old = job('old', 'lane')
  turns.add(old)
  turns.used(old, 5_000)
  const late = job('late', 'lane')
  turns.add(late)
  t.equal(turns.next(), late)
  turns.used(late, 10)
  t.equal(turns.next(), old, 'and gains nothing by having come late')
  turns.remove(late)
  turns.remove(old)
  t.equal(turns.next(), undefined)
  t.equal(turns.workspaces, 0)
})

t.test('the others have their time before one that has cost them some', async (t) => {
  const turns = new FairTurns<ReturnType<typeof job>>()
  const good = job('good', 'lane')
  turns.add(good)
  turns.add(job('bad', 'lane'), 1_000)
  for (let turn = 0; turn < 10; turn += 1) {
    t.equal(turns.next(), good)
    turns.used(good, 50)
  }
})

t.test('a slow lane is remembered, several of them are their workspace', async (t) => {
  const slow = new SlowLanes(() => 0)
  slow.addLane(job('w', 'a'))
  slow.addLane(job('w', 'b'))
  t.same([slow.has(job('w', 'a')), slow.has(job('w', 'c')), slow.has(job('x', 'a'))], [true, false, false])
  slow.addLane(job('w', 'c'))
  t.same([slow.has(job('w', 'd')), slow.has(job('x', 'd'))], [true, false])
  slow.laneGone(job('w', 'a'))
  t.ok(slow.has(job('w', 'a')), 'deleting the lane does not make its workspace quick')
  slow.workspaceGone('w')
  t.notOk(slow.has(job('w', 'a')))
})

t.test('what is gone, or was not slow for an hour, is forgotten', async (t) => {
  let now = 0
  const slow = new SlowLanes(() => now)
  slow.addLane(job('w', 'a'))
  slow.laneGone(job('w', 'a'))
  t.equal(slow.size, 0)
  slow.addWorkspace('w')
  now = 3_599_000
  t.ok(slow.has(job('w', 'a')))
  slow.addLane(job('w', 'a'))
  now += 3_599_000
  t.ok(slow.has(job('w', 'b')), 'it was slow again')
  now += 2_000
  t.notOk(slow.has(job('w', 'b')))
  t.equal(slow.size, 0)
  for (let n = 0; n < 5_000; n += 1) slow.addLane(job(`w${n}`, 'lane'))
  t.equal(slow.size, 1_000, 'memory is bounded')
})
