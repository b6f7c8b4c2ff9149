/** Finding and deleting personal data over HTTP on the real daemon: docs/personal-data.md. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import type { PrivacyJob } from '../../src/contract/privacy.ts'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { checkedApi, errorsIn, unknownId } from './management-client.ts'

const daemon = await startDaemon()
const sink = await startHttpSink()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
})
const api = checkedApi(daemon)
const jobs = '/v1/privacy/jobs'
const ada = 'ada.lovelace@example.com'

const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
const otherPipeId = await daemon.createPipe({ pipe_name: 'payments' })
// Responds with the record, as a database quotes a value in its error.
sink.respondWith(({ text }) =>
  text.includes('reject') ? { status: 422, body: `no ${text}` } : { status: 200 },
)
const destinationId = await daemon.createDestination(pipeId, {
  destination_type: 'destination_http_endpoint',
  destination_name: 'shop',
  destination_config: { url: `${sink.url}/x`, body_format: 'json_object' },
  on_permanent_error: 'park',
})

async function created(body: object): Promise<PrivacyJob> {
  const answer = await api('POST', jobs, body)
  t.equal(answer.status, 202, JSON.stringify(answer.body))
  return answer.body as unknown as PrivacyJob
}
const show = async (id: string) => (await api('GET', `${jobs}/${id}`)).body as unknown as PrivacyJob
const ended = async (body: object) => {
  const { job_id } = await created(body)
  return await until('the job has ended', async () => {
    const job = await show(job_id)
    return job.finished_ts === null ? null : job
  })
}
const keys = [{ path: 'customer.email', value: ada }]
const isInFiles = (text: string) => filesWith(daemon.dataDir, text).length > 0

function filesWith(dir: string, text: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = path.join(dir, name)
    return statSync(file, { throwIfNoEntry: false })?.isFile() && readFileSync(file).includes(text)
  })
}

t.test('a request that is not valid', async (t) => {
  const path = { path: 'customer..email', value: ada }
  t.same(Object.keys(errorsIn(await api('POST', jobs, { kind: 'find', keys: [path] }))), ['keys.0.path'])
  t.match(await api('POST', jobs, { kind: 'find', keys: [] }), { status: 400 })
  t.match(await api('POST', jobs, { kind: 'find', keys, pipe_ids: [unknownId] }), {
    status: 404,
    body: { error: 'pipe_not_found' },
  })
  t.match(await api('GET', `${jobs}/${unknownId}`), { body: { error: 'privacy_job_not_found' } })
  t.match(await api('DELETE', `${jobs}/${unknownId}`), { body: { error: 'privacy_job_not_found' } })
})

t.test('records are found in the buffer and among parked records', async (t) => {
  await daemon.ingest(pipeId, [
    { id: 'a', customer: { email: ada } },
    { id: 'b', customer: { email: 'bob@example.com' } },
  ])
  await daemon.ingest(pipeId, { id: 'reject-c', customer: { email: ada } })
  await daemon.ingest(otherPipeId, { id: 'd', customer: { email: [ada] } })
  await until('one record is parked', async () => {
    const { body } = await daemon.api<{ parked: unknown[] }>(
      'GET',
      `/v1/pipes/${pipeId}/destinations/${destinationId}/parked`,
    )
    return body.parked.length === 1
  })
  const job = await ended({ kind: 'find', keys })
  t.match(job, {
    ...{ state: 'done', stage: null, key_paths: ['customer.email'], pipe_ids: null, has_more_matches: false },
    found: { messages: 3, records: 3, parked: 1 },
    deleted: { messages: 0, records: 0, parked: 0 },
  })
  t.same(job.matches.map(({ record_index, is_parked }) => [record_index, is_parked]).toSorted(), [
    [0, false],
    [0, false],
    [0, false],
    [0, true],
  ])
  t.match(job.remaining, [{ kind: 'destination', name: 'orders/shop' }, { kind: 'backup' }, { kind: 'log' }])
  const ofPipe = await ended({ kind: 'find', keys, pipe_ids: [otherPipeId] })
  t.match(ofPipe, { found: { records: 1, parked: 0 }, pipe_ids: [otherPipeId] })
  const both = [...keys, { path: 'id', value: 'a' }]
  t.match(await ended({ kind: 'find', keys: both }), { found: { records: 1, parked: 0 } })
  t.match((await ended({ kind: 'find', keys: [{ path: 'customer.email', value: 'x' }] })).found, {
    records: 0,
  })
})

t.test('a deletion leaves nothing in any file of the data directory', async (t) => {
  t.equal(isInFiles(ada), true)
  const job = await ended({ kind: 'delete', keys })
  t.match(job, { state: 'done', deleted: { messages: 3, records: 3, parked: 1 } })
  t.match((await ended({ kind: 'find', keys })).found, { messages: 0, records: 0, parked: 0 })
  await until('no file has the value', () => !isInFiles(ada))
  t.same(filesWith(daemon.dataDir, ada), [])
  const others = await ended({ kind: 'find', keys: [{ path: 'customer.email', value: 'bob@example.com' }] })
  t.match(
    others,
    { found: { records: 1 }, matches: [{ record_index: 1 }] },
    'the other record keeps its index',
  )
  t.ok(daemon.log.some(({ msg }) => msg === 'privacy.job_done'))
  // A destination's error is in the log as the destination sent it, which the job says.
  t.notMatch(JSON.stringify(daemon.log.filter(({ msg }) => msg !== 'lane.parked')), ada)
})

t.test('records that were accepted later are not covered, and are delivered', async (t) => {
  const job = await created({ kind: 'delete', keys })
  await daemon.ingest(pipeId, { id: 'later', customer: { email: ada } })
  await until('the deletion is done', async () => (await show(job.job_id)).state === 'done')
  t.match((await ended({ kind: 'find', keys })).found, { records: 1 })
})

t.test('the audit log has the paths of the keys and no value', async (t) => {
  const { body } = await api('GET', '/v1/audit?operation=createPrivacyJob')
  t.match(body.audit, [{ after: { kind: 'find', key_paths: ['customer.email'] } }])
  t.notMatch(JSON.stringify(body), ada)
})

t.test('a number of jobs can wait; a job that has ended is not cancelled', async (t) => {
  const ids: string[] = []
  let full = null
  for (let count = 0; full === null && count < 200; count += 1) {
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => daemon.api('POST', jobs, { kind: 'find', keys })),
    )
    for (const { status, body } of answers)
      if (status === 202) ids.push(String(body.job_id))
      else full = body
  }
  t.match(full, { error: 'too_many_privacy_jobs' })
  for (const id of ids) await daemon.api('DELETE', `${jobs}/${id}`)
  await until('all have ended', async () => {
    const { body } = await api('GET', jobs)
    return (body.jobs as unknown as PrivacyJob[]).every(({ finished_ts }) => finished_ts !== null)
  })
  t.match(await api('DELETE', `${jobs}/${ids[0]}`), { status: 409, body: { error: 'privacy_job_finished' } })
})

t.test('records that are parked at their pipe are found and deleted, and others stay', async (t) => {
  const checkedId = await daemon.createPipe({
    pipe_name: 'checked',
    pipe_schema: { required: ['id'] },
    pipe_schema_on_mismatch: 'park',
  })
  const grace = 'grace.hopper@example.com'
  await daemon.ingest(checkedId, [
    { customer: { email: grace } },
    { customer: { email: 'bob@example.com' } },
    { id: 'e', customer: { email: grace } },
  ])
  const parked = async () =>
    (await daemon.api<{ parked: unknown[] }>('GET', `/v1/pipes/${checkedId}/parked`)).body.parked
  t.equal((await parked()).length, 2)
  const request = { keys: [{ path: 'customer.email', value: grace }], pipe_ids: [checkedId] }
  const found = await ended({ kind: 'find', ...request })
  t.match(found, {
    found: { messages: 1, records: 1, parked: 1 },
    pipes: [{ pipe_id: checkedId, messages: 1, records: 1, parked: 1 }],
  })
  t.match(await ended({ kind: 'delete', ...request }), { deleted: { messages: 1, records: 1, parked: 1 } })
  t.equal((await parked()).length, 1)
  await until('no file has the value', () => !isInFiles(grace))
  t.same((await ended({ kind: 'find', ...request })).found, { messages: 0, records: 0, parked: 0 })

  await daemon.ingest(checkedId, { customer: { email: grace } })
  await daemon.stop()
  const db = new Database(path.join(daemon.dataDir, 'metadata.db'))
  t.equal(db.prepare('UPDATE pipe_parked SET is_replaying = 1').run().changes, 2)
  db.close()
  await daemon.start()
  t.match(await ended({ kind: 'delete', ...request }), { deleted: { parked: 1 } }, 'an interrupted replay')
  t.equal((await parked()).length, 1)
})
