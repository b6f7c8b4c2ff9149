import t from 'tap'
import { releaseBuffer } from '../../../src/api/http/release-buffer.ts'
import { until } from '../../support/until.ts'

const MiB = 1024 * 1024

t.test('memory that is given away is free at once', async (t) => {
  const held = () => process.memoryUsage().arrayBuffers
  await until('the port is closed, soon after the import', () => {
    const before = held()
    releaseBuffer(new Uint8Array(MiB))
    return held() < before + MiB / 2
  })
  const bytes = new Uint8Array(50 * MiB)
  const before = held()
  new Uint8Array(50 * MiB).fill(1)
  t.ok(held() > before + 40 * MiB, 'what nobody refers to is not (negative control)')
  const withBoth = held()
  releaseBuffer(bytes)
  t.ok(held() < withBoth - 40 * MiB)
  t.equal(bytes.length, 0)
})
