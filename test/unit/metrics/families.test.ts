import { Registry } from 'prom-client'
import t from 'tap'
import {
  type Family,
  FoldedSeries,
  maxSeries,
  registerFamily,
  registerHistogramFamily,
} from '../../../src/observe/metrics/families.ts'

interface Item {
  id: number
  value: number
}

const names = {
  labelNames: ['id', 'name'],
  key: ({ id }: Item) => String(id),
  labels: ({ id }: Item) => ({ id: String(id), name: `a "${id}"\\\n` }),
}
const items = (count: number, value = 1) => Array.from({ length: count }, (_, id) => ({ id, value }))

function familyOf(change: Partial<Family<Item>>) {
  const registry = new Registry()
  const family: Family<Item> = {
    ...{ name: 'm', help: 'h', kind: 'gauge' },
    series: ({ value }) => [[{}, value]],
    ...change,
  }
  const fill = registerFamily(registry, names, family, new FoldedSeries(registry))
  const lines = async () => (await registry.metrics()).split('\n')
  return {
    fill,
    own: async () => (await lines()).filter((line) => /^m\{id="\d/.test(line)),
    other: async () => (await lines()).filter((line) => line.startsWith('m{id="_other"')),
    folded: async () =>
      Number((await lines()).find((line) => line.startsWith('pipectl_metrics'))?.split(' ')[1]),
  }
}

t.test('names of items are escaped', async (t) => {
  const { fill, own } = familyOf({})
  fill(items(1))
  t.strictSame(await own(), ['m{id="0",name="a \\"0\\"\\\\\\n"} 1'])
})

t.test('up to the limit each thing has its series; over it the last ones are added up', async (t) => {
  const { fill, own, other, folded } = familyOf({})
  fill(items(maxSeries))
  t.equal((await own()).length, maxSeries)
  t.strictSame(await other(), [])
  t.equal(await folded(), 0)

  fill(items(maxSeries + 100, 2))
  t.equal((await own()).length, maxSeries - 1)
  t.strictSame(await other(), ['m{id="_other",name="_other"} 202'])
  t.equal(await folded(), 101)
})

t.test('several series of a thing count each; the highest of an age stands for the rest', async (t) => {
  const states = familyOf({
    labelNames: ['state'],
    series: ({ id }) => ['a', 'b', 'c', 'd'].map((state) => [{ state }, id % 2]),
  })
  states.fill(items(200))
  t.equal((await states.own()).length + (await states.other()).length, maxSeries)
  t.match(await states.other(), [/state="a"\} 38$/, /state="b"/, /state="c"/, /state="d"/])
  t.equal(await states.folded(), 76 * 4)

  const ages = familyOf({ fold: 'max' })
  ages.fill(items(maxSeries + 10).map(({ id }) => ({ id, value: id })))
  t.match(await ages.other(), [/ 509$/])
})

t.test('a thing keeps its series while it exists, whatever comes before it in the list', async (t) => {
  const { fill, own } = familyOf({})
  fill(items(maxSeries + 1))
  const before = await own()
  fill(items(maxSeries + 1).reverse())
  t.strictSame(new Set(await own()), new Set(before))
  // The first ones go: those that were folded get their places.
  fill(items(maxSeries + 1).slice(10))
  t.equal((await own()).length, maxSeries - 9)
  t.notSame(new Set(await own()), new Set(before))
})

t.test('a counter over the limit only grows, whoever joins, leaves or begins again', async (t) => {
  const { fill, other } = familyOf({ kind: 'counter' })
  const all = (value: number) => items(maxSeries + 3, value)
  fill(all(10))
  t.match(await other(), [/ 40$/])
  fill(all(15))
  t.match(await other(), [/ 60$/])
  // One that was folded is deleted.
  fill(all(15).slice(0, -1))
  t.match(await other(), [/ 60$/])
  // The others count from zero again.
  fill(all(1).slice(0, -1))
  t.match(await other(), [/ 60$/])
  fill(all(4).slice(0, -1))
  t.match(await other(), [/ 69$/])
})

t.test(
  'a histogram has its series up to the limit; over it the last ones are added up and never decrease',
  async (t) => {
    const registry = new Registry()
    const bounds = [1, 10]
    const family = {
      name: 'h',
      help: 'h',
      counts: ({ value }: Item) => ({ bounds, counts: [value, 1, 0], sum: value }),
    }
    const fill = registerHistogramFamily(registry, names, family, new FoldedSeries(registry))
    const lines = async (part: string) =>
      (await registry.metrics()).split('\n').filter((one) => one.includes(part))
    fill(items(1, 4))
    t.strictSame(
      (await lines('id="0"')).map((line) => line.replace(/(,?)(id|name)="(?:[^"\\]|\\.)*"/g, '')),
      ['h_bucket{le="1"} 4', 'h_bucket{le="10"} 5', 'h_bucket{le="+Inf"} 5', 'h_sum{} 4', 'h_count{} 5'],
    )
    t.strictSame(await lines('h_count{id="_other"'), [])

    const each = 5
    const count = maxSeries / each + 10
    fill(items(count, 2))
    const seated = maxSeries / each - 1
    t.equal((await lines('h_count{id="')).length, seated + 1)
    t.strictSame(await lines('h_sum{id="_other"'), [
      `h_sum{id="_other",name="_other"} ${2 * (count - seated)}`,
    ])
    t.match(await lines('folded_series{'), [
      `pipectl_metrics_folded_series{metric="h"} ${each * (count - seated)}`,
    ])
    fill(items(1, 2))
    t.strictSame(await lines('h_sum{id="_other"'), [
      `h_sum{id="_other",name="_other"} ${2 * (count - seated)}`,
    ])
  },
)
