/** A sealed value in the file was altered: its lane stops and says so; the start and every other lane go on. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

t.test('one secret that does not open blocks its lane alone, until it is set again', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'altered' })
  const hook = (where: string) =>
    daemon.createDestination(pipeId, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: `${sink.url}/${where}`, auth_header: `Bearer ${where}` },
    })
  const altered = await hook('altered')
  await hook('sound')
  t.equal(await daemon.stop(), 0)
  alter(path.join(daemon.dataDir, 'metadata.db'), altered)

  const again = await startDaemon({ dataDir: daemon.dataDir })
  t.teardown(() => again.close())
  again.apiKey = daemon.apiKey
  const at = `/v1/pipes/${pipeId}/destinations/${altered}`
  const shown = async () => Object((await again.api('GET', at)).body.destination)
  await again.ingest(pipeId, { n: 1 })
  await until('the other one is delivered to', () => sink.deliveries.some(({ path }) => path === '/sound'))
  await until('its lane says why it stands', async () => (await shown()).lane.last_error !== null)
  t.match((await shown()).lane, {
    lane_state: 'retrying',
    last_error: { class: 'permanent', code: 'secret_unreadable', message: /auth_header/ },
  })
  t.equal((await shown()).destination_config.auth_header, '[redacted]')
  t.notOk(
    sink.deliveries.some(({ path }) => path === '/altered'),
    'nothing is sent without it',
  )
  const change = (config: object) => again.api('PATCH', at, { destination_config: config })
  const kept = { status: 400, body: { errors: { 'destination_config.auth_header': /sent again/ } } }
  t.match(await change({ timeout_ms: 2_000 }), kept)
  t.match(await change({ auth_header: '' }), kept)
  t.match(await again.api('POST', `/v1/pipes/${pipeId}/destinations/test`, { destination_id: altered }), kept)
  t.equal((await change({ auth_header: 'Bearer new' })).status, 200)
  await again.api('POST', `${at}/retry-now`)
  await until('it is delivered', () => sink.deliveries.some(({ path }) => path === '/altered'))
  t.match(sink.deliveries.find(({ path }) => path === '/altered')?.headers, { authorization: 'Bearer new' })
})

/** The last character of the sealed value becomes another. */
function alter(file: string, destinationId: string): void {
  const database = new Database(file)
  const where = 'WHERE destination_id = ?'
  const row = database.prepare(`SELECT destination_config FROM destinations ${where}`).get(destinationId)
  const config = JSON.parse(Object(row).destination_config)
  const at = 30
  const other = config.auth_header[at] === 'A' ? 'B' : 'A'
  config.auth_header = config.auth_header.slice(0, at) + other + config.auth_header.slice(at + 1)
  database
    .prepare(`UPDATE destinations SET destination_config = ? ${where}`)
    .run(JSON.stringify(config), destinationId)
  database.close()
}
