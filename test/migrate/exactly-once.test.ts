/** A batch under way to a table with `exactly_once` is not moved unasked; and a move into three replicas. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startMoveTargets } from '../support/moving.ts'
import { until } from '../support/until.ts'

t.test('it is refused, names the lane, and is done with --allow-repeats', async (t) => {
  const targets = await startMoveTargets(3)
  const daemon = await startDaemon()
  t.teardown(async () => {
    await daemon.close()
    await targets.stop()
  })
  const pipe = await daemon.createPipe({ pipe_name: 'orders' })
  const destination = await daemon.createDestination(pipe, {
    destination_type: 'destination_database',
    destination_name: 'warehouse',
    destination_config: {
      ...{ dialect: 'postgresql', host: '127.0.0.1', port: 1, database: 'd', table: 't' },
      ...{ username: 'u', password: 'p', exactly_once: true },
    },
  })
  for (let n = 0; n < 20; n += 1) await daemon.api('POST', `/v1/ingest/${pipe}`, [{ n }])
  await until('a batch has failed', async () => Number((await daemon.lane(pipe, destination)).attempts) > 0)
  t.equal(await daemon.stop(), 0)
  const refused = await targets.migrate(['--to-cluster'], daemon.dataDir)
  t.equal(refused.code, 5)
  t.match(refused.stderr, /exactly_once.*orders\/warehouse; nothing was changed[\s\S]*--allow-repeats/)
  const moved = await targets.migrate(['--to-cluster', '--allow-repeats'], daemon.dataDir)
  t.equal(moved.code, 0, moved.stderr)
  t.match(JSON.parse(moved.stdout), { messages: 20, missing_messages: 0 })
})
