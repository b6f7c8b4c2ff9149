/** Usage: hourly roll-ups and the marks they move together with. */
import t from 'tap'
import type { IngestCounts, RolledUpUsage } from '../../../src/metadata/usage.ts'
import { newPipe, newWorkspace, open, pullDestination, testFile } from './fixture.ts'

const hour = 3_600_000
const noon = Date.UTC(2026, 0, 15, 12)

function counts(pipeId: string, hourMs: number, more: Partial<IngestCounts> = {}): IngestCounts {
  return {
    pipeId,
    hourMs,
    requests: 1,
    records: 10,
    bytes: 100,
    rejected: 2,
    lastIngestMs: hourMs + 5,
    ...more,
  }
}

const noCounts = {
  ingest_requests: 0,
  ingest_records: 0,
  ingest_bytes: 0,
  rejected_requests: 0,
  delivered_records: 0,
  failed_attempts: 0,
  skipped_records: 0,
  filtered_records: 0,
}
const zeros: Omit<RolledUpUsage, 'last_ingest_ts'> = {
  ...noCounts,
  rejected_hooks: {},
  schema_mismatches: {},
}

t.test('counts add up within their hour and over the hours asked for', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { pipe_id: quietId } = await newPipe(metadata, workspaceId, 'quiet')
  await metadata.usage.addIngest([counts(pipeId, noon - hour)], [])
  await metadata.usage.addIngest([counts(pipeId, noon), counts(pipeId, noon - 24 * hour)], [])
  await metadata.usage.addIngest([counts(pipeId, noon, { bytes: 2 ** 52, lastIngestMs: noon + 1 })], [])
  const window = await metadata.usage.byPipe(workspaceId, noon - 23 * hour)
  t.strictSame(window, {
    [pipeId]: {
      ...zeros,
      ingest_requests: 3,
      ingest_records: 30,
      ingest_bytes: 2 ** 52 + 200,
      rejected_requests: 6,
      last_ingest_ts: new Date(noon + 5).toISOString(),
    },
  })
  t.notOk(quietId in window, 'a pipe without any is left out')
  t.equal((await metadata.usage.byPipe(workspaceId, noon - 24 * hour))[pipeId]?.ingest_requests, 4)
  t.strictSame(await metadata.usage.byPipe(workspaceId, noon + hour), {
    [pipeId]: { ...zeros, last_ingest_ts: new Date(noon + 5).toISOString() },
  })
})

t.test('the time of the last request outlives a quiet day, and pruning', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  await metadata.usage.addIngest([counts(pipeId, noon - hour), counts(pipeId, noon)], [])
  await metadata.usage.prune(noon + 30 * 24 * hour)
  t.strictSame(await metadata.usage.byPipe(workspaceId, noon + 30 * 24 * hour), {
    [pipeId]: { ...zeros, last_ingest_ts: new Date(noon + 5).toISOString() },
  })
  t.equal((await metadata.usage.byPipe(workspaceId, 0))[pipeId]?.ingest_requests, 1, 'older hours are gone')
})

t.test('a rejected request counts without moving the time of the last ingest', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const refused = counts(pipeId, noon, { requests: 0, records: 0, bytes: 0, rejected: 1, lastIngestMs: null })
  await metadata.usage.addIngest([refused], [])
  t.equal((await metadata.usage.byPipe(workspaceId, noon))[pipeId]?.last_ingest_ts, null)
  await metadata.usage.addIngest([counts(pipeId, noon)], [])
  await metadata.usage.addIngest([refused], [])
  t.match((await metadata.usage.byPipe(workspaceId, noon))[pipeId], {
    rejected_requests: 4,
    last_ingest_ts: new Date(noon + 5).toISOString(),
  })
})

t.test('marks are set with the counts: both or neither', async (t) => {
  const options = testFile(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const mark = { pipeId, messages: 1, records: 10, bytes: 100 }
  await metadata.usage.addIngest([counts(pipeId, noon)], [mark])
  t.strictSame(await metadata.usage.marks(), [mark])
  const broken = { pipeId, messages: Number.NaN, records: 20, bytes: 200 }
  await t.rejects(metadata.usage.addIngest([counts(pipeId, noon)], [broken]), /NOT NULL|bigint: "NaN"/)
  t.strictSame(await metadata.usage.marks(), [mark])
  t.equal((await metadata.usage.byPipe(workspaceId, noon))[pipeId]?.ingest_records, 10)
  const next = { pipeId, messages: 2, records: 20, bytes: 200 }
  await metadata.usage.addIngest([counts(pipeId, noon)], [next])
  t.strictSame(await metadata.usage.marks(), [next], 'control: a mark that is whole moves')
  t.equal((await metadata.usage.byPipe(workspaceId, noon))[pipeId]?.ingest_records, 20)
})

t.test(
  'what was counted for a pipe deleted meanwhile is dropped; the rest of the flush is kept',
  async (t) => {
    const metadata = await open(t)
    const workspaceId = await newWorkspace(metadata, 'default')
    const { pipe_id: gone } = await newPipe(metadata, workspaceId, 'gone')
    const { pipe_id: stays } = await newPipe(metadata, workspaceId, 'stays')
    await metadata.pipes.delete({ workspaceId, pipeId: gone })
    const mark = { messages: 1, records: 10, bytes: 100 }
    await metadata.usage.addIngest(
      [counts(gone, noon), counts(stays, noon)],
      [
        { pipeId: gone, ...mark },
        { pipeId: stays, ...mark },
      ],
    )
    t.strictSame(Object.keys(await metadata.usage.byPipe(workspaceId, 0)), [stays])
    t.strictSame(await metadata.usage.marks(), [{ pipeId: stays, ...mark }])
  },
)

t.test('the day quotas start from what the day accepted, of all workspaces', async (t) => {
  const metadata = await open(t)
  const one = await newWorkspace(metadata, 'one')
  const two = await newWorkspace(metadata, 'two')
  const { pipe_id: first } = await newPipe(metadata, one, 'events')
  const { pipe_id: second } = await newPipe(metadata, two, 'events')
  const midnight = noon - 12 * hour
  await metadata.usage.addIngest(
    [counts(first, midnight - hour), counts(first, midnight), counts(first, noon), counts(second, noon)],
    [],
  )
  // A later day: the clock was ahead for a while.
  await metadata.usage.addIngest([counts(first, midnight + 24 * hour)], [])
  t.strictSame(await metadata.usage.ingestedSince(midnight), {
    [first]: { records: 20, bytes: 200 },
    [second]: { records: 10, bytes: 100 },
  })
})

t.test('what lanes do is added to the hour that it is now, and old hours are pruned', async (t) => {
  let clock = noon + 59 * 60_000
  const metadata = await open(t, { ...testFile(t), now: () => clock })
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const made = await metadata.destinations.create({ workspaceId, pipeId }, pullDestination())
  const other = await metadata.destinations.create({ workspaceId, pipeId }, pullDestination())
  const { destination_id: destinationId } = made
  const did = {
    destinationId,
    pipeId,
    deliveredRecords: 3,
    failedAttempts: 2,
    skippedRecords: 1,
    filteredRecords: 4,
  }
  await metadata.laneStore.save([], [did, { ...did, destinationId: other.destination_id }])
  clock += 60_000
  await metadata.laneStore.save([], [did])
  const sums = {
    ...zeros,
    delivered_records: 9,
    failed_attempts: 6,
    skipped_records: 3,
    filtered_records: 12,
    last_ingest_ts: null,
  }
  t.strictSame(await metadata.usage.byPipe(workspaceId, noon), { [pipeId]: sums })
  t.equal((await metadata.usage.byPipe(workspaceId, noon + hour))[pipeId]?.delivered_records, 3)
  await metadata.usage.prune(noon + hour)
  t.equal((await metadata.usage.byPipe(workspaceId, 0))[pipeId]?.delivered_records, 3)
})

t.test('by hour: of one pipe or of the workspace, within the hours asked for', async (t) => {
  const metadata = await open(t)
  const own = await newWorkspace(metadata, 'own')
  const other = await newWorkspace(metadata, 'other')
  const { pipe_id: first } = await newPipe(metadata, own, 'first')
  const { pipe_id: second } = await newPipe(metadata, own, 'second')
  const { pipe_id: foreign } = await newPipe(metadata, other, 'first')
  const added = [
    counts(first, noon - hour),
    counts(first, noon),
    counts(second, noon),
    counts(second, noon + hour),
  ]
  await metadata.usage.addIngest([...added, counts(foreign, noon)], [])
  const one = { ...noCounts, ingest_requests: 1, ingest_records: 10, ingest_bytes: 100, rejected_requests: 2 }
  const two = { ...noCounts, ingest_requests: 2, ingest_records: 20, ingest_bytes: 200, rejected_requests: 4 }
  const { usage } = metadata
  t.strictSame(
    [...(await usage.byHour(own, null, noon - hour, noon))].sort(([a], [b]) => a - b),
    [
      [noon - hour, one],
      [noon, two],
    ],
    'neither the later hour nor the other workspace',
  )
  t.strictSame([...(await usage.byHour(own, [second], noon - hour, noon))], [[noon, one]])
  for (const days of [1, 2, 7]) {
    const found = await usage.byHour(own, null, noon + hour - (days * 24 - 1) * hour, noon + hour)
    t.equal(found.size, 3, `all hours of ${days} days`)
    t.strictSame(found.get(noon), two)
  }
  t.equal(
    (await usage.byHour(own, null, noon - 24 * hour, noon - hour)).size,
    1,
    'the last hour of a day and no more',
  )
  t.strictSame([...(await usage.byHour(own, [foreign], noon - hour, noon))], [])
  t.strictSame(
    [...(await usage.byHour(other, [foreign.toUpperCase()], noon, noon))],
    [[noon, one]],
    'control',
  )
})

t.test('totals are counted once, whoever counts them and whatever they know', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const { pipe_id: otherId } = await newPipe(metadata, workspaceId, 'others')
  const upTo = (messages: number, hourMs = noon) =>
    metadata.usage.countUpTo([{ pipeId, messages, records: messages * 2, bytes: messages * 10 }], hourMs)
  await upTo(5)
  await upTo(3)
  await upTo(5)
  await Promise.all([upTo(9), upTo(8), upTo(9), upTo(7)])
  await upTo(11, noon + hour)
  await metadata.usage.countUpTo(
    [
      { pipeId, messages: 12, records: 24, bytes: 120 },
      { pipeId: otherId.toUpperCase(), messages: 1, records: 1, bytes: 1 },
      { pipeId: '00000000-0000-7000-8000-000000000000', messages: 1, records: 1, bytes: 1 },
    ],
    noon + hour,
  )
  await metadata.usage.countUpTo([], noon)
  const hours = await metadata.usage.byHour(workspaceId, [pipeId], noon, noon + hour)
  t.match(hours.get(noon), { ingest_requests: 9, ingest_records: 18, ingest_bytes: 90 })
  t.match(hours.get(noon + hour), { ingest_requests: 3, ingest_records: 6, ingest_bytes: 30 })
  const usage = await metadata.usage.byPipe(workspaceId, noon)
  t.match(usage[otherId], { ingest_requests: 1 })
  const marks = new Map((await metadata.usage.marks()).map((mark) => [mark.pipeId, mark]))
  t.equal(marks.size, 2)
  t.match(marks.get(pipeId), { messages: 12, records: 24, bytes: 120 })
  t.match(marks.get(otherId), { messages: 1 })
})

t.test('rejected webhooks add up by reason, within the hours and the pipe asked for', async (t) => {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'hooks')
  const rejected = (hourMs: number, rejectedHooks: IngestCounts['rejectedHooks']) =>
    metadata.usage.addIngest([counts(pipeId, hourMs, { rejectedHooks })], [])
  await rejected(noon, { wrong_signature: 2, malformed: 1 })
  await rejected(noon, { wrong_signature: 3 })
  await rejected(noon - 30 * hour, { wrong_token: 7 })
  const found = (firstMs: number, id = workspaceId) =>
    metadata.usage.rejectedHooks({ workspaceId: id, pipeId }, firstMs, noon)
  t.strictSame(await found(noon), { wrong_signature: 5, malformed: 1 })
  t.strictSame(await found(noon - 30 * hour), { wrong_signature: 5, malformed: 1, wrong_token: 7 })
  t.strictSame(await found(noon, await newWorkspace(metadata, 'other')), {}, 'another workspace sees none')
  const usage = await metadata.usage.byPipe(workspaceId, noon - 23 * hour)
  t.strictSame(usage[pipeId]?.rejected_hooks, { wrong_signature: 5, malformed: 1 })
  await metadata.usage.prune(noon)
  t.strictSame(await found(noon - 30 * hour), { wrong_signature: 5, malformed: 1 }, 'old hours are removed')
  await metadata.pipes.delete({ workspaceId, pipeId })
  await rejected(noon, { malformed: 1 })
  t.strictSame(await found(noon), {}, 'counts of a deleted pipe are dropped')
})
