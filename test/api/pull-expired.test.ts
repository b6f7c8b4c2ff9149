import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'

t.test('410 cursor_expired with earliest_seq: after_seq is older than what is kept', async (t) => {
  const daemon = await startDaemon({
    env: {
      PIPECTL_BUFFER_SEGMENT_MAX_SECONDS: '1',
      PIPECTL_BUFFER_DELIVERED_HOURS: '0',
      PIPECTL_BUFFER_DELIVERED_MAX_BYTES: '0',
    },
  })
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'short' })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const pull = (query: string) =>
    daemon.api<{ error: string; earliest_seq: number; stream_seq: number }>(
      'GET',
      `/v1/pull/${lane}?wait_ms=0&${query}`,
    )

  await daemon.ingest(pipeId, { n: 1 })
  const first = await pull('after_seq=0')
  t.equal(first.status, 200, 'negative control: it is kept until it is done with')
  t.equal((await pull(`after_seq=${first.body.stream_seq}`)).status, 204)
  const expired = await until('retention has dropped it', async () => {
    const answer = await pull('after_seq=0')
    return answer.status === 200 ? null : answer
  })
  t.equal(expired.status, 410)
  t.equal(expired.body.error, 'cursor_expired')
  t.equal(expired.body.earliest_seq, first.body.stream_seq + 1)

  await daemon.ingest(pipeId, { n: 2 })
  const second = await pull(`after_seq=${expired.body.earliest_seq - 1}`)
  t.equal(second.status, 200, 'a client goes on from earliest_seq - 1')
})
