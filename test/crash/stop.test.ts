/** A daemon that is stopped under load again and again loses nothing and repeats nothing. */
import t from 'tap'
import { audit, drained, readAll, startProducer } from '../support/ledger.ts'
import { acknowledged, openLedger, restarts } from './ledger-daemon.ts'

t.test(`SIGTERM under load loses nothing and repeats nothing (${restarts} times)`, async (t) => {
  const { sink, daemon, pipeId, httpId, pullId } = await openLedger(t)
  const producer = startProducer(daemon, pipeId)
  for (let round = 0; round < restarts; round++) {
    await acknowledged(producer, 60 + ((round * 53) % 150))
    t.equal(await daemon.stop(), 0, 'the daemon ends with 0')
    await daemon.start()
  }
  await acknowledged(producer, 50)
  await producer.stop()
  await drained(daemon, pipeId, httpId)
  const all = await readAll(daemon, pullId)
  const arrived = sink.records().map((record) => Number(record.n))
  t.match(audit(producer, arrived, all.numbers), { missing: [], outOfOrder: [], unknown: [], repeats: 0 })
})
