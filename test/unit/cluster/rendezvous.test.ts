/** Which node gets which pipe: evenly, the same everywhere, and moving no more than it must. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { ownerOf } from '../../../src/cluster/sharers.ts'

const pipes = Array.from({ length: 3_000 }, () => randomUUID())
const nodes = Array.from({ length: 5 }, () => randomUUID())

t.test('every node has about as many pipes', async (t) => {
  const counts = new Map<string, number>(nodes.map((node) => [node, 0]))
  for (const pipe of pipes) {
    const owner = ownerOf(pipe, nodes) ?? ''
    counts.set(owner, (counts.get(owner) ?? 0) + 1)
  }
  t.equal(counts.size, 5)
  // 600 each; of a random spread one in a million is further off than 5 standard deviations (110).
  for (const count of counts.values()) t.ok(Math.abs(count - 600) < 150, String(count))
})

t.test('the order of the list does not matter', async (t) => {
  const reversed = [...nodes].reverse()
  t.ok(pipes.every((pipe) => ownerOf(pipe, nodes) === ownerOf(pipe, reversed)))
})

t.test('when a node leaves, its pipes alone get another owner', async (t) => {
  const [gone, ...staying] = nodes as [string, ...string[]]
  for (const pipe of pipes) {
    const before = ownerOf(pipe, nodes)
    if (before !== gone && ownerOf(pipe, staying) !== before) t.fail(pipe)
  }
  t.equal(ownerOf(pipes[0] ?? '', []), null, 'nobody is there')
})
