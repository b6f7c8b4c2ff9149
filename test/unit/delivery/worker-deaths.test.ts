import t from 'tap'
import { WorkerDeaths } from '../../../src/delivery/worker-deaths.ts'

const minuteMs = 60_000

function open() {
  const clock = { now: 0 }
  return { clock, deaths: new WorkerDeaths(() => clock.now) }
}

t.test('the lane whose code threw is quarantined at the second death in ten minutes, no other', async (t) => {
  const { clock, deaths } = open()
  const underWay = ['a', 'b']
  t.strictSame(deaths.died({ blamed: 'a', underWay }).quarantined, [])
  deaths.finished('a')
  clock.now += minuteMs
  t.strictSame(deaths.died({ blamed: 'a', underWay }).quarantined, ['a'], 'also when it delivered in between')
  t.strictSame([deaths.quarantined, deaths.suspects], [['a'], []])
  clock.now += 11 * minuteMs
  t.strictSame(deaths.died({ blamed: 'b', underWay: [] }).quarantined, [])
  clock.now += 11 * minuteMs
  t.strictSame(deaths.died({ blamed: 'b', underWay: [] }).quarantined, [], 'long ago does not count')
})

t.test('without blame every lane under way is a suspect until it finishes an attempt', async (t) => {
  const { deaths } = open()
  deaths.died({ blamed: null, underWay: ['a', 'b'] })
  t.strictSame(deaths.suspects, ['a', 'b'])
  deaths.finished('b')
  t.strictSame(deaths.suspects, ['a'])
  t.strictSame(deaths.died({ blamed: null, underWay: ['a', 'b'] }).quarantined, ['a'])
  t.strictSame(deaths.suspects, ['b'])
})

t.test(
  'a quarantined lane is released when it delivers; one that comes back is held for longer',
  async (t) => {
    const { clock, deaths } = open()
    const kill = () => deaths.died({ blamed: 'a', underWay: [] }).quarantined
    kill()
    t.strictSame(kill(), ['a'])
    t.equal(deaths.delivered('a'), true)
    t.strictSame(deaths.quarantined, [])
    t.strictSame(kill(), ['a'], 'known already: at once')
    t.equal(deaths.delivered('a'), false)
    clock.now += 5 * minuteMs
    t.equal(deaths.delivered('a'), true)
    t.strictSame(kill(), ['a'])
    clock.now += 5 * minuteMs
    t.equal(deaths.delivered('a'), false)
    clock.now += 5 * minuteMs
    t.equal(deaths.delivered('a'), true)
    t.equal(deaths.delivered('unknown'), true)
  },
)

t.test(
  'deaths that no lane explains: restarts come later and later, the eleventh in ten minutes is the last',
  async (t) => {
    const { clock, deaths } = open()
    const nobody = { blamed: null, underWay: [] }
    const verdicts = Array.from({ length: 11 }, () => deaths.died(nobody))
    t.strictSame(
      verdicts.map(({ restartAfterMs }) => restartAfterMs),
      [0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000, 8000],
    )
    t.strictSame(
      verdicts.map(({ isHopeless }) => isHopeless),
      [...Array(10).fill(false), true],
    )
    clock.now += 11 * minuteMs
    t.strictSame(deaths.died(nobody), { quarantined: [], restartAfterMs: 0, isHopeless: false })
  },
)

t.test('lanes that are to blame never end the process', async (t) => {
  const { deaths } = open()
  for (let lane = 0; lane < 20; lane += 1) {
    for (const _ of [1, 2]) t.equal(deaths.died({ blamed: `${lane}`, underWay: [] }).isHopeless, false)
  }
  t.equal(deaths.quarantined.length, 20)
})
