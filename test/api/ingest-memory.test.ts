import { gzipSync } from 'node:zlib'
import t from 'tap'
import { bombs } from '../support/bombs.ts'
import { createWorkspace, startDaemon, type TestDaemon } from '../support/daemon.ts'
import { connectRaw } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

async function metric(daemon: TestDaemon, name: string): Promise<number> {
  const text = await (await fetch(daemon.metricsUrl)).text()
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1])
}
const residentBytes = (daemon: TestDaemon) => metric(daemon, 'process_resident_memory_bytes')
const heldBytes = (daemon: TestDaemon) => metric(daemon, 'pipectl_ingest_in_flight_bytes')

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
    await until('its bytes are counted', async () => (await heldBytes(daemon)) >= 800_000)

    const second = () => daemon.api('POST', `/v1/ingest/${pipeId}`, { pad: 'y'.repeat(500_000) })
    const refused = await second()
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
    // Not by asking for room: the upload would be refused when it came beside the question.
    await until('it holds memory', async () => (await heldBytes(daemon)) >= 800_000)
    t.equal((await second()).status, 503)
    aborted.reset()
    await until('an aborted upload holds nothing', async () => (await second()).status === 202)
  },
)

const MiB = 1024 * 1024

/** The victim's calls, one after another, until `attack` has ended: how many were answered, and whether all were good. */
async function beside(attack: Promise<unknown>, call: () => Promise<number>): Promise<Map<number, number>> {
  let isOver = false
  const ended = attack.finally(() => {
    isOver = true
  })
  const statuses = new Map<number, number>()
  while (!isOver) {
    const status = await call()
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  await ended
  return statuses
}

t.test("one workspace's slow uploads leave room for everyone else's bodies (M9)", async (t) => {
  const daemon = await startDaemon({ env: { PIPECTL_INGEST_MAX_IN_FLIGHT_BYTES: '16MiB' } })
  t.teardown(() => daemon.close())
  const greedy = await daemon.createPipe({ pipe_name: 'greedy' })
  const other = await createWorkspace(daemon.dataDir, 'other')
  const made = await daemon.api<{ pipe_id: string }>(
    'POST',
    '/v1/pipes',
    { pipe_name: 'honest' },
    { key: other.api_key },
  )
  const head =
    `POST /v1/ingest/${greedy} HTTP/1.1\r\nHost: pipectl\r\nAuthorization: Bearer ${daemon.apiKey}\r\n` +
    'Content-Type: application/json\r\nContent-Length: 2000000\r\n\r\n'
  const uploads = await Promise.all(Array.from({ length: 20 }, () => connectRaw(daemon.dataUrl)))
  for (const upload of uploads) upload.write(head + ' '.repeat(1_900_000))
  // Those for which there is no room are answered; the others hold what they have.
  const large = { pad: 'x'.repeat(1_000_000) }
  await until('they hold what they may', async () => (await heldBytes(daemon)) > 10 * MiB)
  // Whatever order they came in: an upload that finds no room gives up a megabyte, and leaves less than two free.
  const larger = { pad: 'x'.repeat(3_000_000) }
  t.equal((await daemon.api('POST', `/v1/ingest/${greedy}`, larger)).status, 503)
  const honest = (body: unknown) =>
    daemon.api('POST', `/v1/ingest/${made.body.pipe_id}`, body, { key: other.api_key })
  for (let i = 0; i < 10; i++) {
    t.equal((await honest({ a: 1 })).status, 202, 'a small body')
    t.equal((await honest(large)).status, 202, 'and one of a megabyte')
  }
  const small = await Promise.all(Array.from({ length: 50 }, () => honest({ pad: 'x'.repeat(10_000) })))
  t.ok(small.every(({ status }) => status === 202))
  t.equal((await daemon.api('POST', `/v1/ingest/${greedy}`, larger)).status, 503, 'it is still held')
  for (const upload of uploads) upload.reset()
})

t.test('a crowd of small bodies that decompress to ten megabytes: the memory stays flat (C4)', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const pipe = await daemon.createPipe({ pipe_name: 'bombs' })
  const calm = await daemon.createPipe({ pipe_name: 'calm' })
  t.ok(bombs[0][1].length < 100)
  await daemon.ingest(calm, { warm: 1 })
  const before = await residentBytes(daemon)
  let most = 0
  const attack = Promise.all(
    Array.from({ length: 300 }, async (_, index) => {
      const [encoding, body] = bombs[index % bombs.length]!
      const answer = await daemon.api('POST', `/v1/ingest/${pipe}`, body, {
        headers: { 'content-encoding': encoding },
      })
      t.same(
        [answer.status, answer.body.error, answer.body.limit],
        [413, 'payload_too_large', 'compression_ratio'],
      )
      t.match(answer.body.message, /200 times/)
    }),
  )
  const statuses = await beside(attack, async () => {
    most = Math.max(most, await residentBytes(daemon))
    const body = gzipSync(JSON.stringify({ a: 1 }))
    return (await daemon.api('POST', `/v1/ingest/${calm}`, body, { headers: { 'content-encoding': 'gzip' } }))
      .status
  })
  t.same([...statuses.keys()], [202], 'the neighbour is served throughout')
  // Decompressed all at once they would take three gigabytes.
  t.ok(most - before < 200 * MiB, `${(most - before) / MiB} MiB`)
})

t.test(
  'what decompresses is counted as it comes: a crowd within the ratio ends in 503, not in memory (C4)',
  async (t) => {
    const daemon = await startDaemon({ env: { PIPECTL_INGEST_MAX_IN_FLIGHT_BYTES: '8MiB' } })
    t.teardown(() => daemon.close())
    const pipe = await daemon.createPipe({ pipe_name: 'compressed' })
    const record = () => ({ id: Math.random(), pad: 'x'.repeat(900) })
    const body = gzipSync(JSON.stringify(Array.from({ length: 5_000 }, record)))
    t.ok(body.length > (5 * MiB) / 200 && body.length < 300_000)
    const send = () =>
      daemon.api('POST', `/v1/ingest/${pipe}`, body, { headers: { 'content-encoding': 'gzip' } })
    t.equal((await send()).status, 202, 'alone it is taken')
    const statuses = (await Promise.all(Array.from({ length: 20 }, send))).map(({ status }) => status)
    t.ok(statuses.includes(503))
    t.ok(statuses.every((status) => status === 202 || status === 503))
    t.equal((await send()).status, 202)
  },
)

t.test(
  'a body in one-byte chunks takes what it holds; one without end loses its connection (H6)',
  async (t) => {
    const daemon = await startDaemon()
    t.teardown(() => daemon.close())
    const pipe = await daemon.createPipe({ pipe_name: 'chunks' })
    const head =
      `POST /v1/ingest/${pipe} HTTP/1.1\r\nHost: pipectl\r\nAuthorization: Bearer ${daemon.apiKey}\r\n` +
      'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
    const chunked = (text: string, size: number) => {
      let out = ''
      for (let at = 0; at < text.length; at += size) {
        const chunk = text.slice(at, at + size)
        out += `${chunk.length.toString(16)}\r\n${chunk}\r\n`
      }
      return `${out}0\r\n\r\n`
    }
    const text = (length: number) => JSON.stringify({ pad: 'x'.repeat(length) })
    const send = async (body: string) => {
      const connection = await connectRaw(daemon.dataUrl)
      connection.write(head + body)
      const { status } = await connection.answer()
      connection.reset()
      return status
    }
    t.equal(await send(chunked(text(15_000), 1)), 202)
    t.equal(await send(chunked(text(2_000_000), 20)), 202, 'pieces of twenty bytes, as many as there are')
    const before = await residentBytes(daemon)
    const body = chunked(text(1_000_000), 1)
    const attack = Promise.all(Array.from({ length: 10 }, () => send(body)))
    const statuses = await beside(attack, async () => (await daemon.api('GET', '/v1/health')).status)
    t.same(await attack, Array(10).fill(0))
    t.same([...statuses.keys()], [200])
    t.ok((await residentBytes(daemon)) - before < 150 * MiB)
  },
)
