/** Reads a pipe's messages up to a seq, as delivery does; prints how many there are, or the error's code. */
import path from 'node:path'
import { openLog } from '../../../src/platform/log.ts'
import { openBufferReader } from '../../../src/stores/open-log.ts'

const [root = '', pipeId = '', throughSeq = ''] = process.argv.slice(2)
const spec = { dir: path.join(root, 'buffer'), quarantineDir: path.join(root, 'quarantine') }
const plain = { kind: 'segments', channel: 'read-program', maxBytes: 0, minFreeBytes: 0 } as const
const limits = { segmentMaxBytes: 0, segmentMaxSeconds: 0, undeliveredHours: 0, deliveredHours: 0 }
const reader = await openBufferReader(
  { ...plain, ...limits, ...spec, deliveredMaxBytes: 0 },
  openLog({ level: 'fatal', format: 'json' }, 'read'),
)
try {
  const all = { maxRecords: 10_000, maxBytes: 1024 * 1024 * 1024, throughSeq: Number(throughSeq) }
  const { messages } = await reader.read(pipeId, 0, all)
  process.stdout.write(`${messages.length}`)
} catch (error) {
  process.stdout.write(`${(error as { code?: string }).code ?? error}`)
}
process.exit(0)
