/** Requests to a daemon whose metadata cannot be written for lack of space: each gets a response. */
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { initDataDir, startDaemon } from '../support/daemon.ts'
import { faultyDisk } from '../support/faults/library.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { drained } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { httpDestination, openSender } from './sender.ts'

async function openWorld(t: Test) {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-commands-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const dataDir = path.join(root, 'data')
  const { api_key: apiKey } = await initDataDir(dataDir)
  const disk = faultyDisk(dataDir, path.join(root, 'work'))
  const daemon = await startDaemon({ dataDir, env: disk.env })
  daemon.apiKey = apiKey
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const pipeId = await daemon.createPipe({ pipe_name: 'full' })
  const laneId = await daemon.createDestination(pipeId, httpDestination(sink.url))
  const lane = `/v1/pipes/${pipeId}/destinations/${laneId}`
  const hasLogged = (event: string) => until(event, () => daemon.log.some(({ msg }) => msg === event))
  return {
    ...{ daemon, sink, pipeId, laneId, lane, hasLogged },
    /** Nothing can be committed to metadata from here on. */
    fill: () => disk.plan({ at: 1, error: 'ENOSPC', until: 'always', match: 'metadata.db' }),
    free: () => disk.plan(null),
  }
}

t.test('lane commands and changes are answered 503, reads 200, and all goes on with space', async (t) => {
  const { daemon, sink, pipeId, laneId, lane, fill, free, hasLogged } = await openWorld(t)
  sink.respondWith(() => ({ status: 503 }))
  const sender = openSender(daemon, pipeId)
  await sender.send(3)
  await until('it blocks', async () => (await daemon.lane(pipeId, laneId)).blocking_msg_id)
  fill()
  const waiting = daemon.api('POST', `${lane}/retry-now`)
  await hasLogged('lanes.save_delayed')
  const [retried, skipped, rewound, created, deleted] = await Promise.all([
    waiting,
    daemon.api('POST', `${lane}/skip`),
    daemon.api('POST', `${lane}/rewind`, { to: 'earliest' }),
    daemon.api('POST', '/v1/api-keys', { api_key_name: 'other' }),
    daemon.api('DELETE', lane),
  ])
  // The first may have had its turn before the lane could not save.
  t.ok(retried.status === 200 || retried.status === 503, `retry-now: ${retried.status}`)
  for (const answer of [skipped, rewound, created, deleted])
    t.match(answer, {
      status: 503,
      body: { error: 'storage_unavailable' },
      headers: { 'retry-after': /^\d+$/ },
    })
  t.equal((await daemon.api('GET', lane)).status, 200)
  t.equal((await daemon.api('GET', '/v1/pipes')).status, 200)
  t.equal((await daemon.api('GET', '/v1/health', undefined, { key: null })).status, 200)

  free()
  sink.respondWith(() => ({}))
  await until(
    'a command is answered',
    async () => (await daemon.api('POST', `${lane}/retry-now`)).status === 200,
    {
      timeoutMs: 5_000,
    },
  )
  t.match(await drained(daemon, pipeId, laneId), { skipped_messages: 0, dropped_messages: 0 })
  const arrived = new Set(sink.records().map(({ n }) => Number(n)))
  t.same(
    [...sender.accepted].filter((n) => !arrived.has(n)),
    [],
  )
})

t.test('a clean stop: it ends with 0 in time, and what was not saved is delivered again', async (t) => {
  const { daemon, sink, pipeId, laneId, lane, fill, free, hasLogged } = await openWorld(t)
  const sender = openSender(daemon, pipeId)
  await sender.send(2)
  await drained(daemon, pipeId, laneId)
  fill()
  await sender.send(2)
  await hasLogged('lanes.save_delayed')
  t.equal(await daemon.stop(), 0)
  await hasLogged('lane.not_saved')
  free()
  await daemon.start()
  t.match(await drained(daemon, pipeId, laneId), { skipped_messages: 0, dropped_messages: 0 })
  const arrived = new Set(sink.records().map(({ n }) => Number(n)))
  t.same(
    [...sender.accepted].filter((n) => !arrived.has(n)),
    [],
  )
  t.equal((await daemon.api('GET', lane)).status, 200)
})
