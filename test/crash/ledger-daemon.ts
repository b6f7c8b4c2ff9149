/** The parts that the tests of restarts under load share. */
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import type { Producer } from '../support/ledger.ts'
import { scaled } from '../support/scale.ts'
import { until } from '../support/until.ts'

/** `--scale` of test/run-files.ts multiplies it. */
export const restarts = scaled(5)

/** Waits until the producer has got `more` further acknowledgements: the daemon is under load at that moment. */
export async function acknowledged(producer: Producer, more: number): Promise<void> {
  const goal = producer.accepted.size + more
  await until(`${more} further acknowledgements`, () => producer.accepted.size >= goal)
}

/** A daemon with a pipe that an HTTP endpoint and a pull consumer follow. */
export async function openLedger(t: Tap) {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'ledger' })
  const httpId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/`, body_format: 'ndjson' },
  })
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  return { sink, daemon, pipeId, httpId, pullId }
}

interface Tap {
  teardown(fn: () => unknown): void
}
