/** Jobs on personal data in the store: their values, their order, other workspaces; parked rows and texts that are erased. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { erasedText, withoutTexts } from '../../../src/metadata/erased-texts.ts'
import type { NewParked } from '../../../src/metadata/parked-store-port.ts'
import type { NewPrivacyJob } from '../../../src/metadata/privacy-jobs.ts'
import { rowsOf } from './database.ts'
import { databaseDestination, newPipe, newWorkspace, open, ownerOf, testFile } from './fixture.ts'

const { privacyJobsPerWorkspace, finishedPrivacyJobs, finishedPrivacyDays } = resourceLimits
const dayMs = 86_400_000
const secret = 'ada.lovelace@example.com'
const wanted: NewPrivacyJob = {
  kind: 'delete',
  keys: [{ path: 'email', value: secret }],
  ...{ pipeIds: null, throughSeq: 7 },
}

async function scene(t: Test) {
  const clock = { now: 1_800_000_000_000 }
  const options = { ...testFile(t), now: () => clock.now }
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const create = async (ofWorkspace = workspaceId) => {
    const result = await metadata.privacy.create(ofWorkspace, wanted)
    return result.kind === 'created' ? result.job.job_id : result.kind
  }
  return { metadata, workspaceId, clock, options, create }
}

t.test('the values of a job are sealed, and gone when it is over', async (t) => {
  const { metadata, workspaceId, options, create } = await scene(t)
  const stored = async () => JSON.stringify(await rowsOf(options, 'SELECT * FROM privacy_jobs, audit_log'))
  const id = await create()
  t.notMatch(await stored(), secret, 'neither the job nor the audit log has the value')
  t.match(await stored(), 'email')
  const job = await metadata.privacy.next()
  t.match(job, { jobId: id, workspaceId, keys: wanted.keys, throughSeq: 7 })
  t.equal(await metadata.privacy.save(id, { ...job!.progress, stage: 'buffer' }), true)
  t.match(await metadata.privacy.get(workspaceId, id), {
    state: 'running',
    stage: 'buffer',
    key_paths: ['email'],
  })
  t.equal(await metadata.privacy.forgetKeys(id, { ...job!.progress, stage: 'files' }), true)
  t.match(await metadata.privacy.next(), { jobId: id, keys: [], progress: { stage: 'files' } })
  await metadata.privacy.finish(id, 'done', job!.progress)
  t.equal(await metadata.privacy.next(), null)
  t.match(await metadata.privacy.get(workspaceId, id), { state: 'done', stage: null })
  t.equal(await metadata.privacy.save(id, job!.progress), false, 'it is over')
  t.strictSame(await rowsOf(options, 'SELECT sealed_keys FROM privacy_jobs'), [{ sealed_keys: null }])
})

t.test('a cancelled job stays cancelled, and loses its values', async (t) => {
  const { metadata, workspaceId, options, create } = await scene(t)
  const id = await create()
  const { progress } = (await metadata.privacy.next())!
  t.equal(await metadata.privacy.cancel(workspaceId, id), 'cancelled')
  t.equal(await metadata.privacy.cancel(workspaceId, id), 'finished')
  t.equal(await metadata.privacy.save(id, progress), false)
  await metadata.privacy.finish(id, 'done', progress)
  t.match(await metadata.privacy.get(workspaceId, id), { state: 'cancelled' })
  t.strictSame(await rowsOf(options, 'SELECT sealed_keys FROM privacy_jobs'), [{ sealed_keys: null }])
})

t.test('the oldest job of all workspaces runs first; each workspace sees its own', async (t) => {
  const { metadata, workspaceId, create } = await scene(t)
  const other = await newWorkspace(metadata, 'other')
  const first = await create()
  const second = await create(other)
  t.equal((await metadata.privacy.next())?.jobId, first)
  t.equal(await metadata.privacy.get(other, first), null)
  t.equal(await metadata.privacy.cancel(other, first), 'not_found')
  t.strictSame(
    (await metadata.privacy.list(other)).map(({ job_id }) => job_id),
    [second],
  )
  await metadata.privacy.cancel(workspaceId, first)
  t.equal((await metadata.privacy.next())?.jobId, second)
})

t.test('a number of jobs can wait, and the newest that ended are kept for some time', async (t) => {
  const { metadata, workspaceId, clock, create } = await scene(t)
  for (let count = 0; count < finishedPrivacyJobs + 5; count += 1)
    await metadata.privacy.cancel(workspaceId, await create())
  for (let count = 0; count < privacyJobsPerWorkspace; count += 1) t.not(await create(), 'full')
  t.equal(await create(), 'full')
  const all = await metadata.privacy.list(workspaceId)
  t.equal(all.length, privacyJobsPerWorkspace + finishedPrivacyJobs)
  clock.now += (finishedPrivacyDays + 1) * dayMs
  t.equal((await metadata.privacy.list(workspaceId)).length, privacyJobsPerWorkspace)
})

function parkedMessage(seq: number, body: string): NewParked {
  const msgId = `0198b2a0-0000-7000-8000-${String(seq).padStart(12, '0')}`
  return {
    ...{ msgId, seq, receivedMs: 5, recordIndex: null, firstIndex: 0, recordCount: body.split('\n').length },
    ...{
      reason: 'permanent_error',
      code: '22P02',
      message: `bad: ${secret}`,
      column: 'email',
      value: secret,
    },
    ...{ body: Buffer.from(body), attempts: 1, generation: 0 },
  }
}

async function parkedScene(t: Test) {
  const base = await scene(t)
  const { metadata, workspaceId } = base
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const given = databaseDestination()
  const { destination_id: id } = await metadata.destinations.create({ workspaceId, pipeId }, given)
  await metadata.parkedStore.park(ownerOf(id), [
    parkedMessage(1, `{"email":"${secret}"}`),
    parkedMessage(2, `{"n":1}\n{"email":"${secret}"}\n{"n":3}`),
  ])
  return { ...base, pipeId, id }
}

t.test('parked rows: one is removed, another keeps its other records and loses its error', async (t) => {
  const { metadata, options, pipeId, id } = await parkedScene(t)
  const rows = (await metadata.privacy.parkedAfter(id, ''))!
  t.match(rows, [
    { pipeId, seq: 1 },
    { pipeId, seq: 2, firstIndex: 0 },
  ])
  t.equal(await metadata.privacy.parkedAfter(id, rows[1]!.parkedId), null)
  t.equal(await metadata.privacy.replaceParked({ ...rows[0]!, body: '{}' }, null), false, 'it has changed')
  t.equal(await metadata.privacy.replaceParked(rows[0]!, null), true)
  t.equal(await metadata.privacy.replaceParked(rows[0]!, null), false, 'it is gone')
  t.equal(await metadata.privacy.replaceParked(rows[1]!, '\n{"n":1}\n\n{"n":3}'), true)
  const stored = JSON.stringify(await rowsOf(options, 'SELECT * FROM parked, parked_bodies'))
  t.notMatch(stored, secret)
  t.match(await rowsOf(options, 'SELECT records_count, error_message, error_value, history FROM parked'), [
    { records_count: 3, error_message: erasedText, error_value: null, history: '[]' },
  ])
  t.match(await rowsOf(options, 'SELECT "rows", records, body_bytes FROM parked_sums'), [
    { rows: 1, records: 3, body_bytes: 17 },
  ])
})

t.test('texts that can quote a record lose what they quote', async (t) => {
  const attempt = JSON.stringify({
    ...{ attempt_no: 3, outcome: 'failed' },
    error: { class: 'permanent', code: '23505', message: `Key (email)=(${secret}) exists` },
    response: { status: 400, headers: {}, excerpt: `no ${secret}` },
  })
  t.strictSame(JSON.parse(withoutTexts(attempt)), {
    ...{ attempt_no: 3, outcome: 'failed' },
    error: { class: 'permanent', code: '23505', message: erasedText },
    response: { status: 400, headers: {}, excerpt: '' },
  })
  const slack = JSON.stringify({ text: `orders/database is stuck: the value ${secret}` })
  t.strictSame(JSON.parse(withoutTexts(slack)), { text: `orders/database is stuck: ${erasedText}` })
})

t.test('the file is rewritten: nothing of removed rows is left in it', async (t) => {
  const { metadata, options, id } = await parkedScene(t)
  const { file } = metadata.privacy
  if (file === null) return t.comment('a server, not a file')
  const { dir } = options
  const isInFiles = () =>
    readdirSync(dir, { recursive: true, encoding: 'utf8' })
      .map((name) => path.join(dir, name))
      .filter((name) => /\.db/.test(name))
      .some((name) => readFileSync(name).includes(secret))
  for (const row of (await metadata.privacy.parkedAfter(id, ''))!)
    await metadata.privacy.replaceParked(row, null)
  t.equal(isInFiles(), true, 'free pages and the WAL still have it')
  t.equal(await file.rewrite(), null)
  t.equal(isInFiles(), false)
})
