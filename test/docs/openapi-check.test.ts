/** The comparison of responses with the served document: it has to see each kind of difference. */
import t from 'tap'
import { parse } from 'yaml'
import { openapiYaml } from '../../src/contract/openapi.ts'
import { OpenApiCheck } from '../support/openapi-check.ts'

const id = '6f2c7f3e-8d0b-4f5a-9a53-0c2d4b1e7a90'
const check = new OpenApiCheck(parse(openapiYaml()))
const problems = (method: string, path: string, status: number, body?: unknown) =>
  check.problems({ method, path, status, body, text: body === undefined ? '' : JSON.stringify(body) })
const accepted = {
  accepted: true,
  pipe_id: id,
  pipe_name: 'events',
  records_count: 1,
  msg_id: id,
  message: 'Accepted.',
}
const ingest = `/v1/ingest/${id}`

t.test('what the document describes is no problem', async (t) => {
  t.same(problems('POST', ingest, 202, accepted), [])
  t.same(problems('DELETE', `/v1/pipes/${id}`, 204), [])
  t.same(problems('GET', `/v1/pipes/${id}`, 404, { error: 'pipe_not_found', message: 'No such pipe.' }), [])
  t.same(problems('GET', '/v1/nothing', 404, { error: 'not_found', message: 'Not found.' }), [])
})

t.test('a key that the document does not name', async (t) => {
  t.same(problems('POST', ingest, 202, { ...accepted, extra: 1 }), ['extra is not documented'])
  const error = { error: 'pipe_not_found', message: 'No such pipe.', extra: 1 }
  t.same(problems('GET', `/v1/pipes/${id}`, 404, error), ['extra is not documented'])
})

t.test('a key that is missing, of another type, or out of its format', async (t) => {
  const { msg_id, ...without } = accepted
  t.same(problems('POST', ingest, 202, without), ['msg_id is missing'])
  t.same(problems('POST', ingest, 202, { ...accepted, records_count: '1' }), [
    'records_count is not of type integer',
  ])
  t.same(problems('POST', ingest, 202, { ...accepted, msg_id: `${msg_id}x` }).length, 1)
  t.same(problems('POST', ingest, 202, { ...accepted, msg_id: null }), ['msg_id is null'])
})

t.test('a status or an error code that the operation does not list', async (t) => {
  t.same(problems('GET', '/v1/pipes', 409, { error: 'duplicate_origin', message: '' }), [
    'status 409 is not documented',
  ])
  t.same(problems('GET', `/v1/pipes/${id}`, 404, { error: 'destination_not_found', message: '' }).length, 1)
})

t.test('a body where none is documented', async (t) => {
  t.same(problems('DELETE', `/v1/pipes/${id}`, 204, {}), ['a body, where none is documented'])
})
