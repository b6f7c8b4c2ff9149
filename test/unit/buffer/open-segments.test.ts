/** The reader's list of segments while its directory cannot be listed. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { segmentFile } from '../../../src/log/segments/layout.ts'
import { OpenSegments } from '../../../src/log/segments/open-segments.ts'
import { until } from '../../support/until.ts'

t.test('a directory that cannot be listed for a while costs only that while', async (t) => {
  const root = t.testdir()
  const dir = path.join(root, 'buffer')
  const away = path.join(root, 'away')
  mkdirSync(dir)
  const begin = (firstSeq: number) => writeFileSync(segmentFile(dir, { firstSeq, generation: 0 }), '')
  begin(1)
  const segments = new OpenSegments(dir, () => {})
  t.teardown(() => segments.close())
  t.same(segments.names(), [1])

  renameSync(dir, away)
  t.throws(() => segments.refresh(), { code: 'ENOENT' }, 'whoever asks is told')
  let failures = 0
  const count = () => failures++
  process.on('uncaughtException', count)
  t.teardown(() => process.off('uncaughtException', count))
  // As long as several sweeps.
  const since = performance.now()
  await until('sweeps have failed', () => performance.now() - since > 1_200)
  t.equal(failures, 0)

  renameSync(away, dir)
  begin(8)
  await until('a later sweep finds what is new', () => segments.names().length === 2)
  t.same(segments.names(), [1, 8])
  rmSync(dir, { recursive: true })
})
