/** Latencies and success rates, as people read them. */
import t from 'tap'
import { latencyText, shareText } from '../../../src/apps/client/latency.ts'

t.test('a latency has a unit that fits it', async (t) => {
  for (const [ms, text] of [
    [undefined, '–'],
    [0, '0'],
    [0.4, '≤ 1 ms'],
    [1, '≤ 1 ms'],
    [1.31, '1.3 ms'],
    [999.4, '999 ms'],
    [1_449, '1.4 s'],
    [125_000, '2m 5s'],
    [3 * 86_400_000, '3d'],
  ] as const)
    t.equal(latencyText(ms), text)
})

t.test('only what is complete is 100 %, and only nothing is 0 %', async (t) => {
  for (const [share, text] of [
    [null, '–'],
    [1, '100 %'],
    [0.999999, '99.99 %'],
    [0.9, '90 %'],
    [0.5, '50 %'],
    [0.0000001, '0.01 %'],
    [0, '0 %'],
  ] as const)
    t.equal(shareText(share), text)
})
