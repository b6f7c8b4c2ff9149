import t from 'tap'
import { SharedRuns } from '../../../src/api/management/shared-runs.ts'

/** Work that ends when it is told to. */
function workload() {
  const runs: ((value: string | Error) => void)[] = []
  const work = () =>
    new Promise<string>((resolve, reject) => {
      runs.push((value) => (value instanceof Error ? reject(value) : resolve(value)))
    })
  return { runs, work }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('who asks while one is under way shares the next, which begins when it is over', async (t) => {
  const shared = new SharedRuns<string>()
  const { runs, work } = workload()
  const first = shared.run('a', work)
  const late = [shared.run('a', work), shared.run('a', work), shared.run('a', work)]
  t.equal(runs.length, 1)
  runs[0]?.('old')
  t.equal(await first, 'old')
  await turn()
  t.equal(runs.length, 2)
  runs[1]?.('new')
  t.strictSame(await Promise.all(late), ['new', 'new', 'new'])
  const again = shared.run('a', work)
  t.equal(runs.length, 3, 'nothing is remembered')
  runs[2]?.('again')
  t.equal(await again, 'again')
})

t.test('another name waits for nobody', async (t) => {
  const shared = new SharedRuns<string>()
  const { runs, work } = workload()
  const both = [shared.run('a', work), shared.run('b', work)]
  t.equal(runs.length, 2)
  for (const end of runs) end('done')
  t.strictSame(await Promise.all(both), ['done', 'done'])
})

t.test('a run that fails fails for who shared it alone', async (t) => {
  const shared = new SharedRuns<string>()
  const { runs, work } = workload()
  const first = shared.run('a', work)
  const second = shared.run('a', work)
  runs[0]?.(new Error('lost'))
  await t.rejects(first, { message: 'lost' })
  await turn()
  runs[1]?.('found')
  t.equal(await second, 'found')
})
