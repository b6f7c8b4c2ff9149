/** Reports of what pipes hold: any client of the NATS account can publish on their subject. */
import t from 'tap'
import { sharesSubject } from '../../../../src/cluster/jetstream/frames.ts'
import { Shares } from '../../../../src/cluster/jetstream/shares.ts'
import { startNats } from '../../../support/nats.ts'
import { until } from '../../../support/until.ts'

t.test('what is no report is passed over, and the connection goes on reading', async (t) => {
  const nats = await startNats()
  const [connection, stranger] = await Promise.all([nats.connect(), nats.connect()])
  const shares = new Shares(connection, 'test', 1_000_000)
  t.teardown(async () => {
    shares.close()
    await Promise.all([connection.close(), stranger.close()])
    await nats.stop()
  })
  await connection.flush()
  const report = { node: 'n', report: 1, undelivered: 5, delivered: 7, isPressed: true }
  const wrong = [
    ...['', '{', 'null', '[]', '{"node":1}', '"x"'],
    JSON.stringify({ ...report, node: 'x'.repeat(65), pipes: [] }),
    JSON.stringify({ ...report, node: 'a', pipes: [['p', 'w']] }),
    JSON.stringify({ ...report, node: 'b', pipes: [['p', 'w', 'many']] }),
    JSON.stringify({ ...report, node: 'c', pipes: Array.from({ length: 501 }, () => ['p', 'w', 1]) }),
    JSON.stringify({ ...report, node: 'd' }),
  ]
  for (const text of wrong) stranger.publish(sharesSubject('test'), text)
  stranger.publish(sharesSubject('test'), JSON.stringify({ ...report, pipes: [['p', 'w', 5]] }))
  await stranger.flush()
  await until('the report is counted', () => shares.othersThan('me').undelivered > 0)
  t.same(shares.othersThan('me'), { undelivered: 5, delivered: 7 }, 'that one alone')
})
