import t from 'tap'
import { DurationHistogram } from '../../src/platform/histogram.ts'

const weekMs = 7 * 24 * 3_600_000
const quantiles = [0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1]

/** Repeatable, so that a failure can be looked at. */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** From 1 ms to 7 days, in clusters as they occur: many short ones, few very long ones. */
function durations(random: () => number): number[] {
  const length = 1 + Math.floor(random() * 500)
  const spread = random()
  const middle = random()
  return Array.from({ length }, () => {
    const exponent = Math.min(1, Math.max(0, middle + (random() - 0.5) * spread))
    return weekMs ** exponent
  })
}

function histogramOf(all: readonly number[]): DurationHistogram {
  const histogram = new DurationHistogram()
  for (const ms of all) histogram.observe(ms)
  return histogram
}

t.test('every quantile is within 9.6 % of the exact one', async (t) => {
  let worst = 1
  for (let seed = 1; seed <= 300; seed += 1) {
    const all = durations(randomNumbers(seed)).sort((a, b) => a - b)
    const histogram = histogramOf(all)
    for (const share of quantiles) {
      const exact = all[Math.max(1, Math.ceil(share * all.length)) - 1]!
      const estimate = histogram.quantileMs(share)!
      const factor = Math.max(estimate / exact, exact / estimate)
      worst = Math.max(worst, factor)
      if (factor > Math.sqrt(1.2) + 1e-9) t.fail(`seed ${seed}: ${share} is ${estimate}, exactly ${exact}`)
    }
  }
  t.ok(worst > 1.05, `the bound is not far from what occurs: ${worst}`)
})

t.test('a sum of parts is the histogram of all, in any order and through JSON', async (t) => {
  for (let seed = 1; seed <= 50; seed += 1) {
    const random = randomNumbers(seed)
    const all = durations(random)
    const parts: number[][] = [[], [], []]
    for (const ms of all) parts[Math.floor(random() * 3)]!.push(ms)
    const stored = parts.map((part) => JSON.stringify(histogramOf(part).sparse()))
    const read = stored.map((text) => JSON.parse(text) as number[])
    const sum = DurationHistogram.sum(read)
    t.strictSame(sum.sparse(), histogramOf(all).sparse())
    t.strictSame(DurationHistogram.sum(read.toReversed()).sparse(), sum.sparse())
    t.equal(sum.total, all.length)
  }
})

t.test('a count weighs as often as the duration', async (t) => {
  const weighted = new DurationHistogram()
  weighted.observe(10, 98)
  weighted.observe(5_000, 2)
  const single = histogramOf([...Array.from({ length: 98 }, () => 10), 5_000, 5_000])
  t.strictSame(weighted.sparse(), single.sparse())
  t.ok(weighted.quantileMs(0.95)! < 12)
  t.ok(weighted.quantileMs(0.99)! > 4_500)
})

t.test('durations outside the bounds are counted at the ends', async (t) => {
  const histogram = histogramOf([-5, 0, 0.2, 1, Number.NaN, 60 * weekMs])
  t.strictSame(histogram.sparse(), [0, 5, 111, 1])
  t.equal(histogram.quantileMs(0.5), 1)
  t.ok(histogram.quantileMs(1)! > 0.9 * weekMs)
  t.equal(new DurationHistogram().quantileMs(0.5), null)
  t.strictSame(new DurationHistogram().sparse(), [])
})
