/** POST …/schema/infer: a schema of the records that a pipe has stored, or of a sample. */
import t from 'tap'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { checkedApi, created, errorsIn, unknownId } from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const infer = async (pipeId: string, body: object) => {
  const answer = await api('POST', `/v1/pipes/${pipeId}/schema/infer`, body)
  t.equal(answer.status, 200, answer.text)
  return Object(answer.body)
}
const $schema = 'https://json-schema.org/draft/2020-12/schema'

t.test('the newest records of a pipe, without the keys that the pipe adds', async (t) => {
  const fields = { pipe_add_ingest_ts: true, pipe_ingest_ts_field: 'at', pipe_add_ingest_ip: true }
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'orders', ...fields }, 'pipe_id')
  t.match(await infer(pipeId, {}), {
    source: 'pipe',
    records_seen: 0,
    oldest_ts: null,
    ended_by: null,
    schema: { $schema, type: 'object' },
  })
  await daemon.ingest(pipeId, { id: 'text', old: true })
  await daemon.ingest(
    pipeId,
    Array.from({ length: 120 }, (_, id) => ({ id, state: id % 2 === 0 ? 'new' : 'paid' })),
  )
  const all = await infer(pipeId, {})
  t.match(all, { records_seen: 121, ended_by: null })
  t.same(all.schema, {
    $schema,
    type: 'object',
    properties: {
      id: { type: ['integer', 'string'] },
      state: { type: 'string', enum: ['new', 'paid'] },
      old: { type: 'boolean' },
    },
    required: ['id'],
  })
  const newest = await infer(pipeId, {
    records: 120,
    enums: false,
    minimums: true,
    additional_properties: false,
  })
  t.match(newest, { records_seen: 120, ended_by: 'records', oldest_ts: /T/ })
  t.same(newest.schema, {
    $schema,
    type: 'object',
    properties: { id: { type: 'integer', minimum: 0 }, state: { type: 'string' } },
    required: ['id', 'state'],
    additionalProperties: false,
  })
})

t.test('a sample is used as it is, and none of it is stored', async (t) => {
  const fields = { pipe_add_ingest_ts: true, pipe_ingest_ts_field: 'at' }
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'sampled', ...fields }, 'pipe_id')
  const proposal = await infer(pipeId, { sample: '{"at":1,"m":{}}\n\n{"at":2.5}\n' })
  t.match(proposal, { source: 'sample', records_seen: 2, oldest_ts: null, notes: [] })
  t.same(proposal.schema.properties, { at: { type: 'number' }, m: { type: 'object' } })
  t.equal((await infer(pipeId, {})).records_seen, 0)
  const wrong = await api('POST', `/v1/pipes/${pipeId}/schema/infer`, { sample: '{"a":1}\n[1]' })
  t.equal(wrong.status, 400)
  t.match(errorsIn(wrong), { sample: /^line 2 is not a JSON object/ })
})

t.test('many records are read in steps, with the limit that ended the reading', async (t) => {
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'many', pipe_add_ingest_ts: false }, 'pipe_id')
  const records = Array.from({ length: 2_000 }, (_, id) => ({ id, text: 'x'.repeat(300) }))
  for (let request = 0; request < 6; request += 1) await daemon.ingest(pipeId, records)
  t.match(await infer(pipeId, {}), { records_seen: 10_000, ended_by: 'records' })
  t.match(await infer(pipeId, { records: 100_000 }), { records_seen: 12_000, ended_by: null })
})

t.test('an unknown pipe and a wrong body are rejected', async (t) => {
  t.equal((await api('POST', `/v1/pipes/${unknownId}/schema/infer`, {})).status, 404)
  const pipeId = await created(api, '/v1/pipes', { pipe_name: 'wrong' }, 'pipe_id')
  const wrong = await api('POST', `/v1/pipes/${pipeId}/schema/infer`, { records: 0, more: 1 })
  t.equal(wrong.status, 400)
  t.match(errorsIn(wrong), { records: String, more: String })
})
