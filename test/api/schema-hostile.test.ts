/** Hostile schemas on the real daemon: their requests are rejected with a clear error, others are answered meanwhile. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { hostilePairs, recordSchema } from '../unit/ingest/schema/hostile.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())
const other = await daemon.createPipe({ pipe_name: 'other' })

/** Sends records to the other pipe, one after the other, until `isDone`. Returns how many were accepted. */
async function acceptedUntil(isDone: () => boolean): Promise<number> {
  let accepted = 0
  while (!isDone()) {
    const { status } = await daemon.api('POST', `/v1/ingest/${other}`, { n: accepted })
    if (status !== 202) throw new Error(`${status} for a request to another pipe`)
    accepted++
  }
  return accepted
}

t.test('records that take too many steps', async (t) => {
  let index = 0
  let accepted = 0
  for (const [name, pair] of Object.entries(hostilePairs)) {
    const pipe = await daemon.createPipe({ pipe_name: `p${index++}`, pipe_schema: recordSchema(pair) })
    let isDone = false
    const hostile = daemon.api('POST', `/v1/ingest/${pipe}`, { a: pair.value }).finally(() => {
      isDone = true
    })
    accepted += await acceptedUntil(() => isDone)
    const { status, body } = await hostile
    t.equal(status, 400, name)
    t.match(body, {
      error: 'schema_mismatch',
      errors: [
        { record: 0, path: '', message: /^takes too many steps to check.*send fewer or smaller records/ },
      ],
    })
  }
  // One of them can arrive before the hostile request, and one wait for its turn.
  t.ok(accepted > 2 * index, `${accepted} other requests during ${index} hostile ones`)
})

t.test('the same schemas accept few values', async (t) => {
  let index = 0
  for (const [name, pair] of Object.entries(hostilePairs)) {
    if (!Array.isArray(pair.value)) continue
    const pipe = await daemon.createPipe({ pipe_name: `few${index++}`, pipe_schema: recordSchema(pair) })
    const { status, text } = await daemon.api('POST', `/v1/ingest/${pipe}`, { a: pair.value.slice(0, 2) })
    t.equal(status, name.startsWith('a deep value') ? 400 : 202, `${name}: ${text}`)
  }
})
