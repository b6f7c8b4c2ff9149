import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { connectRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

t.test(
  'bodies under way share a bounded memory: beyond it 503 buffer_unavailable, and nothing is lost',
  async (t) => {
    const daemon = await startDaemon({ env: { PIPECTL_INGEST_MAX_IN_FLIGHT_BYTES: '1MiB' } })
    t.teardown(() => daemon.close())
    const pipeId = await daemon.createPipe({ pipe_name: 'uploads' })
    const large = JSON.stringify({ pad: 'x'.repeat(900_000) })
    const upload = await connectRaw(daemon.dataUrl)
    upload.write(
      `POST /v1/ingest/${pipeId} HTTP/1.1\r\nHost: pipectl\r\nAuthorization: Bearer ${daemon.apiKey}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${large.length}\r\n\r\n`,
    )
    upload.write(large.slice(0, 800_000))

    const second = () => daemon.api('POST', `/v1/ingest/${pipeId}`, { pad: 'y'.repeat(500_000) })
    // The first upload's bytes arrive when they arrive: ask until they are counted.
    const refused = await until('the second body finds no room', async () => {
      const answer = await second()
      return answer.status === 202 ? null : answer
    })
    t.equal(refused.status, 503)
    t.equal(refused.body.error, 'buffer_unavailable')
    t.match(refused.body.msg_id, /^[0-9a-f-]{36}$/)
    t.equal(refused.headers['retry-after'], '5')
    t.equal((await daemon.api('GET', '/v1/pipes')).status, 200, 'management goes on')

    upload.write(large.slice(800_000))
    t.equal((await upload.answer()).status, 202, 'the upload that was there first is kept')
    t.equal((await second()).status, 202, 'what it held is free again')

    const aborted = await connectRaw(daemon.dataUrl)
    aborted.write(
      `POST /v1/ingest/${pipeId} HTTP/1.1\r\nHost: pipectl\r\nAuthorization: Bearer ${daemon.apiKey}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${large.length}\r\n\r\n${large.slice(0, 800_000)}`,
    )
    await until('it holds memory', async () => (await second()).status === 503)
    aborted.reset()
    await until('an aborted upload holds nothing', async () => (await second()).status === 202)
  },
)
