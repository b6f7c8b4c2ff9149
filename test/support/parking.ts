/** A lane that parks: an HTTP endpoint, one request a record, that refuses each with `"bad"` in it for good. */
import type { ParkedRecord } from '../../src/contract/parked.ts'
import type { TestDaemon } from './daemon.ts'
import { type HttpSink, startHttpSink } from './http-sink.ts'
import { until } from './until.ts'

export interface ParkingLane {
  pipeId: string
  destinationId: string
  /** `/v1/pipes/…/destinations/…/parked` */
  path: string
  sink: HttpSink
  /** Sends these records in one message, and waits until as many are parked as hold `"bad"` in all. */
  send(...recordTexts: string[]): Promise<void>
  parked(): Promise<ParkedRecord[]>
  /** The text of what the endpoint took. */
  taken(): string[]
}

export async function startParkingLane(daemon: TestDaemon, pipeName: string): Promise<ParkingLane> {
  const sink = await startHttpSink()
  sink.respondWith(({ text }) => ({ status: text.includes('"bad"') ? 422 : 200 }))
  const pipeId = await daemon.createPipe({ pipe_name: pipeName, pipe_add_ingest_ts: false })
  const destinationId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'shop',
    destination_config: { url: `${sink.url}/x`, body_format: 'json_object' },
    on_permanent_error: 'park',
  })
  const path = `/v1/pipes/${pipeId}/destinations/${destinationId}/parked`
  const parked = async () =>
    (await daemon.api<{ parked: ParkedRecord[] }>('GET', `${path}?limit=500`)).body.parked
  return {
    pipeId,
    destinationId,
    path,
    sink,
    parked,
    async send(...recordTexts) {
      const before = (await parked()).length
      await daemon.ingest(pipeId, `[${recordTexts.join(',')}]`)
      const bad = recordTexts.filter((text) => text.includes('"bad"')).length
      await until('the refused records are parked', async () => (await parked()).length === before + bad)
    },
    taken: () => sink.deliveries.map(({ text }) => text.trim()).filter((text) => !text.includes('"bad"')),
  }
}
