/**
 * The records of a person are deleted from a daemon under load that is killed with kill -9 at the beginning of every
 * stage: no file of the data directory has a byte of them, they are not delivered afterwards, no other record is lost,
 * and no batch is repeated under another identity.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { type PrivacyJob, privacyStages } from '../../src/contract/privacy.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type HttpSink, startHttpSink } from '../support/http-sink.ts'
import { audit, drained, readAll, startProducer } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { acknowledged } from './ledger-daemon.ts'

/** Values of the person. Only the first one is searched for. */
const person = { email: 'ada.lovelace@example.com', street: 'St James Square 12' }
const isAboutPerson = (text: string | Buffer) => text.includes(person.email) || text.includes(person.street)
const jobs = '/v1/privacy/jobs'

function filesAboutPerson(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const file = path.join(dir, name)
    return statSync(file, { throwIfNoEntry: false })?.isFile() && isAboutPerson(readFileSync(file))
  })
}

async function endpoint(daemon: TestDaemon, pipeId: string, sink: HttpSink, more: object = {}) {
  return await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/`, body_format: 'ndjson' },
    ...more,
  })
}

/** By the number of a record: the identities of the batches in which it was sent. */
function identitiesIn(sink: HttpSink): Map<number, Set<string>> {
  const found = new Map<number, Set<string>>()
  for (const { text, headers } of sink.deliveries)
    for (const line of text.split('\n').filter((one) => one !== '')) {
      const { n } = JSON.parse(line) as { n?: number }
      if (n !== undefined) found.set(n, (found.get(n) ?? new Set()).add(String(headers['webhook-id'])))
    }
  return found
}

t.test('a deletion under load, killed at every stage', async (t) => {
  const [open, down, rejecting] = [await startHttpSink(), await startHttpSink(), await startHttpSink()]
  const daemon = await startDaemon({ env: { PIPECTL_BUFFER_SEGMENT_MAX_BYTES: String(1024 * 1024) } })
  t.teardown(async () => {
    await daemon.close()
    await Promise.all([open.stop(), down.stop(), rejecting.stop()])
  })
  const pipeId = await daemon.createPipe({ pipe_name: 'ledger', pipe_add_ingest_ts: false })
  const openId = await endpoint(daemon, pipeId, open)
  // It fails until the end, with a batch whose range is saved, and quotes what it was sent.
  down.respondWith(({ text }) => ({ status: 503, body: text.slice(-200) }))
  const downId = await endpoint(daemon, pipeId, down)
  rejecting.respondWith(({ text }) =>
    isAboutPerson(text) ? { status: 422, body: `no: ${text}` } : { status: 200 },
  )
  const rejectingId = await endpoint(daemon, pipeId, rejecting, {
    destination_config: { url: `${rejecting.url}/`, body_format: 'json_object' },
    on_permanent_error: 'park',
  })
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  let own = 1_000_000
  const about = [{ n: own++ }, { ...person, note: 'x'.repeat(2_000) }, { n: own++ }]
  const first = own
  await daemon.ingest(pipeId, about)
  const checkedId = await daemon.createPipe({
    pipe_name: 'checked',
    pipe_schema: { required: ['n'] },
    pipe_schema_on_mismatch: 'park',
  })
  await daemon.ingest(checkedId, [person, { n: 1, ...person }, { name: 'bob' }])
  const parkedAtPipe = async () =>
    (await daemon.api<{ parked: unknown[] }>('GET', `/v1/pipes/${checkedId}/parked`)).body.parked.length
  t.equal(await parkedAtPipe(), 2)
  const producer = startProducer(daemon, pipeId, { loops: 2, paceMs: 20 })
  await acknowledged(producer, 50)
  for (let count = 0; count < 5; count += 1) await daemon.ingest(pipeId, about.slice(1, 2))
  await until('a record of the person is parked', async () => {
    const { body } = await daemon.api<{ parked: unknown[] }>(
      'GET',
      `/v1/pipes/${pipeId}/destinations/${rejectingId}/parked`,
    )
    return body.parked.length > 0
  })
  t.ok(filesAboutPerson(daemon.dataDir).length > 1, 'buffer and metadata have them')

  const { body } = await daemon.api<{ job_id: string }>('POST', jobs, {
    kind: 'delete',
    keys: [{ path: 'email', value: person.email }],
  })
  for (const stage of privacyStages) {
    await until(`stage ${stage} has begun`, () =>
      daemon.log.some((line) => line.msg === 'privacy.stage_started' && line.stage === stage),
    )
    await daemon.kill()
    await daemon.start()
  }
  const job = await until('the deletion is done', async () => {
    const answer = await daemon.api<PrivacyJob & Record<string, unknown>>('GET', `${jobs}/${body.job_id}`)
    return answer.body.finished_ts === null ? null : answer.body
  })
  t.match(job, { state: 'done', found: { records: 7 } })
  t.ok(job.found.parked > 1)
  t.equal(await parkedAtPipe(), 1, 'that of another person stays')
  const marks = [open, down, rejecting].map((sink) => sink.deliveries.length)
  t.same(filesAboutPerson(daemon.dataDir), [], 'while it is running')
  await acknowledged(producer, 50)
  await producer.stop()
  down.respondWith(() => ({ status: 200 }))
  for (const id of [openId, downId, rejectingId]) await drained(daemon, pipeId, id)
  const later = [open, down, rejecting].flatMap((sink, index) => sink.deliveries.slice(marks[index]))
  t.notOk(
    later.some(({ text }) => isAboutPerson(text)),
    'not delivered afterwards',
  )

  const inOrder = (await readAll(daemon, pullId)).numbers.filter((n) => n !== undefined)
  for (const sink of [open, down]) {
    const arrived = sink.deliveries.filter((one) => sink === open || later.includes(one))
    const numbers = arrived
      .flatMap(({ text }) => text.split('\n'))
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { n: number }).n)
      .filter((n) => n !== undefined)
    t.ok(numbers.includes(first - 1), 'records of the same message are delivered')
    const found = audit(
      producer,
      numbers.filter((n) => n < 1_000_000),
      inOrder.filter((n) => n < 1_000_000),
    )
    t.match(found, { missing: [], outOfOrder: [], unknown: [] })
    t.same(
      [...identitiesIn(sink)].filter(([, ids]) => ids.size > 1),
      [],
      'each record was sent in batches of one identity only',
    )
  }
  await daemon.stop()
  t.same(filesAboutPerson(daemon.dataDir), [], 'after it has stopped')
})
