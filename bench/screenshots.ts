/**
 * `npm run screenshots`: the pictures of the README, docs/screenshots/PAGE-WIDTH-THEME.png, of a real daemon with traffic and
 * one lane that is stuck.
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { type Dashboard, openDashboard } from '../test/support/dashboard.ts'
import { startHttpSink } from '../test/support/http-sink.ts'
import { until } from '../test/support/until.ts'

const target = path.resolve(import.meta.dirname, '..', 'docs', 'screenshots')
const sizes = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
]
/** So many rates make a chart that shows something. */
const secondsOfTraffic = 16

const sink = await startHttpSink()
sink.respondWith(({ text }) =>
  text.includes('"unit":null') ? { status: 422, body: '{"problem":"unit is required"}' } : {},
)
const dashboard = await openDashboard()
try {
  const { orders, sensors, lane } = await makeScene(dashboard)
  const traffic = setInterval(() => void send(dashboard, orders, sensors), 150)
  mkdirSync(target, { recursive: true })
  for (const size of sizes) {
    for (const colourScheme of ['light', 'dark'] as const) {
      const { page, close } = await dashboard.visit('admin', { ...size, colourScheme })
      await until('the chart has something to show', () =>
        page.getByRole('img', { name: /^Records per second/ }).count(),
      )
      await new Promise((resolve) => setTimeout(resolve, secondsOfTraffic * 1_000))
      const shoot = async (name: string) => {
        await page.screenshot({ path: path.join(target, `${name}-${size.width}-${colourScheme}.png`) })
      }
      await shoot('overview')
      // By links, so that the rates go on.
      await page.getByRole('link', { name: 'orders' }).first().click()
      await page.getByRole('img', { name: /^Records per second/ }).waitFor()
      await shoot('pipe')
      await page.goto(`${dashboard.daemon.url}/dashboard/pipes/${sensors}/destinations/${lane}`)
      await page.getByText('The blocking message').waitFor()
      await shoot('lane')
      await close()
    }
  }
  clearInterval(traffic)
} finally {
  await dashboard.close()
  await sink.stop()
}

async function makeScene({ daemon }: Dashboard) {
  const orders = await daemon.createPipe({ pipe_name: 'orders', pipe_description: 'Orders of the web shop' })
  const sensors = await daemon.createPipe({ pipe_name: 'sensors', pipe_description: 'Greenhouse readings' })
  await daemon.createPipe({ pipe_name: 'clicks', pipe_description: 'Page views of the site' })
  const endpoint = (name: string, address: string) => ({
    destination_type: 'destination_http_endpoint',
    destination_name: name,
    destination_config: { url: `${sink.url}${address}` },
  })
  await daemon.createDestination(orders, endpoint('billing', '/billing'))
  await daemon.createDestination(orders, { destination_type: 'destination_pull', destination_config: {} })
  const lane = await daemon.createDestination(sensors, endpoint('farm', '/readings'))
  await daemon.ingest(sensors, { sensor: 'bed-4', celsius: 21.4, unit: null })
  return { orders, sensors, lane }
}

async function send({ daemon }: Dashboard, orders: string, sensors: string): Promise<void> {
  const some = Array.from({ length: 1 + Math.floor(Math.random() * 12) }, (_, number) => ({
    order: number,
    total: 19.9,
  }))
  // The daemon may be stopping.
  await daemon.ingest(orders, some).catch(() => {})
  await daemon.ingest(sensors, { sensor: 'bed-2', celsius: 20.1, unit: 'C' }).catch(() => {})
}
