/** The guides to sending and pulling, walked against one daemon; the table of errors of ingest.md is the contract's. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { ingestOperations } from '../../../src/contract/data-operations.ts'
import { errorCatalogue } from '../../../src/contract/errors.ts'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { shareDaemon } from '../../support/guide-setups.ts'
import { walk } from '../../support/guide-walker.ts'

const root = new URL('../../../', import.meta.url)
const page = readFileSync(new URL('docs/ingest.md', root), 'utf8')

t.test('the table of errors has each error of ingest with its status, and no other', async (t) => {
  const rows = [...page.matchAll(/^\| (\d{3}) \| `(\w+)` \|/gm)].map(([, status, code]) => [
    code,
    Number(status),
  ])
  const ingest = ingestOperations.find(({ operationId }) => operationId === 'ingestRecords')!
  const expected = ingest.errors.map((code) => [code, errorCatalogue[code].status])
  t.same([...rows].sort(), [...expected].sort())
})

t.test('the reasons for which the buffer takes nothing are those that there are', async (t) => {
  const buffer = readFileSync(new URL('src/log/buffer.ts', root), 'utf8')
  const [, union = ''] = /class BufferUnavailableError[\s\S]*?readonly reason:([\s\S]*?)constructor/.exec(
    buffer,
  )!
  const parking = readFileSync(new URL('src/ingest/parked/park-request.ts', root), 'utf8')
  const [, sentences = ''] = /^const reasons = \{([\s\S]*?)^\}/m.exec(parking)!
  const ofParking = [...sentences.matchAll(/^ {2}(\w+):/gm)].map(([, one]) => one!)
  t.ok(ofParking.length > 2)
  const reasons = [...union.matchAll(/'(\w+)'/g)].map(([, one]) => one!)
  t.ok(reasons.length > 3)
  const [sentence = ''] = /^`details\.reason` of[\s\S]*?\n\n/m.exec(page)!
  const named = [...sentence.matchAll(/`(\w+)` \(/g)].map(([, one]) => one!)
  t.same(named.sort(), [...reasons, ...ofParking, 'too_many_bytes_in_flight'].sort())
})

t.test('its limits are the defaults', async (t) => {
  t.match(page, `| ${resourceLimits.recordsPerRequest.toLocaleString('en-US')} (`)
  t.match(page, `| ${resourceLimits.keysPerRecord.toLocaleString('en-US')} (`)
  t.match(page, `| ${resourceLimits.storedBytesPerMessage / 2 ** 20} MiB | 413 `)
  t.match(page, `| ${resourceLimits.headBytes / 1024} KiB | 431`)
})

const daemon = await shareDaemon()
t.teardown(() => daemon.close())
const own = { daemon: daemon.setup }

await walk('ingest', own)
await walk('backfill', own)
await walk('browser', own)
await walk('mobile', own)
await walk('fluent-bit', own)
await walk('pull', own)
