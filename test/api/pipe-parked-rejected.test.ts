/** Records parked at a pipe that cannot be replayed, edited or discarded now. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import type { PipeParkedList } from '../../src/contract/pipe-parked.ts'
import { startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi } from './management-client.ts'

const daemon = await startDaemon({ env: { PIPECTL_BUFFER_MAX_BYTES: '4MiB' } })
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const pipeId = await daemon.createPipe({
  pipe_name: 'checked',
  pipe_schema: { required: ['n'] },
  pipe_schema_on_mismatch: 'park',
})
const parked = `/v1/pipes/${pipeId}/parked`
const text = 'x'.repeat(300_000)
await daemon.ingest(pipeId, [{ a: 1 }, { text }])
const list = async () => ((await api('GET', parked)).body as unknown as PipeParkedList).parked
const [first] = await list()
const one = `${parked}/${first!.parked_id}`

t.test('a record whose replay was interrupted can only be replayed again', async (t) => {
  await daemon.stop()
  const db = new Database(path.join(daemon.dataDir, 'metadata.db'))
  const mark = db.prepare('UPDATE pipe_parked SET is_replaying = 1 WHERE parked_id = ?')
  t.equal(mark.run(first!.parked_id).changes, 1)
  db.close()
  await daemon.start()
  const conflict = { status: 409, body: { error: 'parked_replaying' } }
  t.match(await api('PATCH', one, { records: [{ n: 1 }] }), conflict)
  t.match(await api('POST', `${one}/replay`, { records: [{ n: 1 }] }), conflict)
  t.match(await api('DELETE', one), conflict)
  t.equal((await list()).length, 2)
  t.equal((await api('POST', `${one}/replay`)).status, 200)
  t.equal((await list()).length, 1)
})

t.test('while the buffer is full, records stay parked', async (t) => {
  await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
  await until('the buffer is full', async () => {
    const { status } = await daemon.api('POST', `/v1/ingest/${pipeId}`, { n: 1, text })
    return status === 503
  })
  const [left] = await list()
  const full = { status: 503, body: { error: 'buffer_unavailable' } }
  const request = { force: true }
  t.match(await api('POST', `${parked}/${left!.parked_id}/replay`, request), full)
  t.match(await api('POST', `${parked}/replay`, { all: true, force: true }), full)
  t.same(
    (await list()).map(({ parked_id }) => parked_id),
    [left!.parked_id],
  )
})
