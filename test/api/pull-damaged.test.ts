/** A pull with after_seq before messages that the disk has lost: it continues with the next message. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { listSegments, segmentFile } from '../../src/log/segments/layout.ts'
import { startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'

t.test('messages at the end of one segment and at the beginning of the next are lost', async (t) => {
  const daemon = await startDaemon({ env: { PIPECTL_BUFFER_SEGMENT_MAX_SECONDS: '1' } })
  t.teardown(() => daemon.close())
  const dir = path.join(daemon.dataDir, 'buffer')
  const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_add_ingest_ts: false })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const pull = (afterSeq: number) =>
    daemon.api<{ stream_seq: number; records: unknown[] }>(
      'GET',
      `/v1/pull/${lane}?wait_ms=0&after_seq=${afterSeq}`,
    )
  const seqs: number[] = []
  const send = async (count: number) => {
    for (let sent = 0; sent < count; sent += 1) {
      await daemon.ingest(pipeId, { n: seqs.length })
      seqs.push(
        (
          await until('it is there', async () => {
            const { status, body } = await pull(seqs.at(-1) ?? 0)
            return status === 200 ? body : null
          })
        ).stream_seq,
      )
    }
  }
  await send(3)
  await until('another segment begins', async () => {
    await send(1)
    return listSegments(dir).length > 1
  })
  await send(3)
  t.equal((await pull(seqs.at(-1)!)).status, 204, 'the lane has them all')
  const [, second] = listSegments(dir)
  const boundary = seqs.findIndex((seq) => seq >= second!.firstSeq)
  const [after, next] = [seqs[boundary - 2]!, seqs[boundary + 1]!]
  await daemon.stop()
  for (const name of listSegments(dir)) {
    const db = new Database(segmentFile(dir, name))
    // Otherwise a salvage finds them in the free parts of their pages.
    db.pragma('secure_delete = ON')
    db.prepare('DELETE FROM message WHERE seq > ? AND seq < ?').run(after, next)
    db.close()
  }
  await daemon.start()
  const reply = await pull(after)
  t.match(reply, { status: 200, body: { stream_seq: next, records: [{ n: boundary + 1 }] } })
})
