import t from 'tap'
import { watchReading } from '../../../src/api/http/read-watch.ts'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { until } from '../../support/until.ts'

t.test('a reader that takes enough in each window goes on; one that stops is too slow, once', async (t) => {
  let taken = 0
  let looks = 0
  let isReading = true
  let slow = 0
  const look = () => {
    looks += 1
    if (isReading) taken += resourceLimits.readWindowBytes
    return taken
  }
  const stop = watchReading(
    look,
    () => {
      slow += 1
    },
    1,
  )
  await until('some windows have gone by', () => looks > 20)
  t.equal(slow, 0)
  isReading = false
  taken += resourceLimits.readWindowBytes / 2
  await until('it is too slow', () => slow > 0)
  const after = looks
  t.equal(slow, 1)
  t.equal(looks, after, 'and nobody looks any more')
  stop()
})

t.test('a watch that was ended says nothing', async (t) => {
  let slow = 0
  watchReading(
    () => 0,
    () => {
      slow += 1
    },
    1,
  )()
  let other = 0
  const stop = watchReading(
    () => 0,
    () => {
      other += 1
    },
    1,
  )
  await until('a watch begun later has ended', () => other === 1)
  stop()
  t.equal(slow, 0)
})
