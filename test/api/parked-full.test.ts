/** Without room to park, a skip is refused: nothing that was accepted is thrown away by a key press. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

t.test('409 parked_full, and the message is still there', async (t) => {
  const sink = await startHttpSink()
  sink.respondWith(() => ({ status: 422 }))
  const daemon = await startDaemon({ env: { PIPECTL_PARKED_MAX_BYTES: '1500' } })
  t.teardown(async () => {
    await daemon.close()
    await sink.stop()
  })
  const pipeId = await daemon.createPipe({ pipe_name: 'events' })
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/hook` },
  })
  const base = `/v1/pipes/${pipeId}/destinations/${id}`
  const isStuckAt = async (seq: number) => {
    const blocking = await daemon.api('GET', `${base}/blocking-message`)
    return Object(blocking.body).stream_seq === seq
  }
  await daemon.ingest(pipeId, [{ n: 1 }])
  await daemon.ingest(pipeId, [{ n: 2 }])
  await until('the first is stuck', () => isStuckAt(1))
  t.match(await daemon.api('POST', `${base}/skip`), { status: 200, body: { skipped: true } })
  await until('the second is stuck', () => isStuckAt(2))
  t.match(await daemon.api('POST', `${base}/skip`), {
    status: 409,
    body: { error: 'parked_full', message: /parked\.max_bytes/ },
  })
  t.ok(await isStuckAt(2))
  t.match(await daemon.lane(pipeId, id), { skipped_messages: 1, parked_records: 1, cursor_seq: 1 })
})
