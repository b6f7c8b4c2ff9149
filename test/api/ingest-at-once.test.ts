/**
 * A body is judged where the socket's bytes are, which the next request overwrites, and its stored text is lent by the
 * scanner until the next scan: whatever waits in between must have made them its own.
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { sharedDaemon } from '../support/shared-daemon.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())

const limits = {
  pl_ingest_max_records_per_request: 1000,
  pl_ingest_max_records_per_second: 100_000,
  pl_ingest_max_records_per_day: 1_000_000,
  pl_delivery_max_records_per_flush: 1000,
  pl_delivery_max_bytes_per_flush: 1_000_000,
  pl_delivery_max_seconds_per_flush: 1,
}

/** As long as one another and different throughout, so that a mixture of two would show. */
function recordOf(index: number, bytes: number): string {
  return JSON.stringify({ index, pad: String.fromCharCode(97 + (index % 26)).repeat(bytes) })
}

/** Too many values for the main thread, and an escaped key, which the scanner does not take. */
function recordForThread(index: number): string {
  return `{"index":${index},"\\u0061":[${Array(16_000).fill(index % 10)}]}`
}

t.test('requests of every kind at once: each is stored as it was sent', async (t) => {
  const make = async (pipeName: string) => {
    const pipeId = await daemon.createPipe({ pipe_name: pipeName, pipe_add_ingest_ts: false })
    const lane = await daemon.createDestination(pipeId, {
      destination_type: 'destination_pull',
      destination_config: {},
    })
    return { pipeId, lane }
  }
  const plain = await make('plain')
  const limited = await make('limited')
  await daemon.api('PUT', `/v1/pipes/${limited.pipeId}/limits`, limits)

  const expected = { plain: new Set<string>(), limited: new Set<string>() }
  const sent = Array.from({ length: 120 }, async (_, index) => {
    // The largest are for a parser thread too.
    const record =
      index % 6 === 1 ? recordForThread(index) : recordOf(index, [40, 2_000, 60_000, 300_000][index % 4]!)
    const isLimited = index % 3 === 0
    const headers: Record<string, string> = {}
    if (index % 5 === 0) headers['Idempotency-Key'] = `key-${index}`
    if (index % 7 === 0) headers['Content-Encoding'] = 'gzip'
    expected[isLimited ? 'limited' : 'plain'].add(record)
    const body = index % 7 === 0 ? gzipSync(record) : record
    const { pipeId } = isLimited ? limited : plain
    return (await daemon.api('POST', `/v1/ingest/${pipeId}`, body, { headers })).status
  })
  t.same(new Set(await Promise.all(sent)), new Set([202]))

  for (const [name, { lane }] of Object.entries({ plain, limited })) {
    const wanted = expected[name as keyof typeof expected]
    const stored = new Set<string>()
    for (let pulled = 0; pulled < wanted.size; pulled++) {
      const { text } = await daemon.api('GET', `/v1/pull/${lane}?wait_ms=5000`)
      stored.add(text.slice(text.indexOf('"records":') + '"records":['.length, -2))
    }
    t.ok(stored.size === wanted.size && [...stored].every((record) => wanted.has(record)), name)
  }
})
