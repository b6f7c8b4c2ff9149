/** A daemon with a pipe, an HTTP destination and a pull destination: what the figures of lanes are tested on. */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { checkedApi, created, httpDestination, pullDestination } from './management-client.ts'

export async function startTwoLanes() {
  const daemon = await startDaemon()
  const sink = await startHttpSink()
  t.teardown(async () => {
    await daemon.close()
    await sink.stop()
  })
  const api = checkedApi(daemon)
  const pipe = await created(api, '/v1/pipes', { pipe_name: 'events' }, 'pipe_id')
  const at = `/v1/pipes/${pipe}/destinations`
  const config = { destination_name: 'sink', destination_config: { url: sink.url } }
  const lane = await created(api, at, { ...httpDestination, ...config }, 'destination_id')
  const pull = await created(api, at, { ...pullDestination, destination_name: 'pulled' }, 'destination_id')
  return { daemon, sink, api, pipe, at, lane, pull }
}
