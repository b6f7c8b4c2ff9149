/** When keys were last used: stored once a minute, and not lost when it cannot be stored. */
import t from 'tap'
import { KeyUse } from '../../../src/ingest/directory/directory-cache.ts'

t.test('a key is stored once in a minute in which it was used, and again after a failure', async (t) => {
  let nowMs = 120_500
  let used: string[] = []
  let isFull = false
  const stored: [readonly string[], number][] = []
  const keyUse = new KeyUse({
    directory: { takeUsedKeys: () => used.splice(0) },
    store: async (ids, minuteMs) => {
      if (isFull) throw new Error('no space')
      stored.push([ids, minuteMs])
    },
    now: () => nowMs,
  })
  await keyUse.flush()
  t.strictSame(stored, [], 'nothing was used')
  used = ['a', 'b']
  await keyUse.flush()
  used = ['a']
  keyUse.used(['c'])
  await keyUse.flush()
  t.strictSame(stored, [
    [['a', 'b'], 120_000],
    [['c'], 120_000],
  ])
  nowMs = 180_001
  isFull = true
  used = ['a']
  await t.rejects(keyUse.flush())
  isFull = false
  await keyUse.flush()
  t.strictSame(stored[2], [['a'], 180_000])
})
