/** The guides to destinations that are no databases, and to alerts, walked against one daemon. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { alertEventNames } from '../../../src/contract/alert-words.ts'
import { configSchema } from '../../../src/contract/destination.ts'
import { type AlertNames, type StandardAlert, standardAlert } from '../../../src/observe/alerts/message.ts'
import type { AlertFact } from '../../../src/observe/alerts/rules.ts'
import { shareDaemon } from '../../support/guide-setups.ts'
import { blocksOf, walk } from '../../support/guide-walker.ts'

t.test('the table of nats.md has each key of the config, and no other', async (t) => {
  const page = readFileSync(new URL('../../../docs/nats.md', import.meta.url), 'utf8')
  const table = page.slice(page.indexOf('## Options'), page.indexOf('## Order'))
  const rows = table.split('\n').filter((line) => line.startsWith('| `'))
  const keys = rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, key]) => key),
  )
  const { properties } = configSchema('destination_nats') as { properties?: object }
  t.same(keys.sort(), Object.keys(properties ?? {}).sort())
})

const alerts = readFileSync(new URL('../../../docs/alerts.md', import.meta.url), 'utf8')

t.test('the example of alerts.md is what is sent of such a lane, field by field', (t) => {
  const json = blocksOf(alerts).find(({ language }) => language === 'json')
  const example = JSON.parse(json?.text ?? '{}') as Required<StandardAlert>
  const { workspace, pipe, destination, url, lane } = example
  const { error, attempts, first_failed_ts, msg_id } = lane
  const failure = { attempts, firstFailedMs: Date.parse(first_failed_ts), msgId: msg_id, error }
  const fact = { type: 'lane.stuck', heldBack: 0, lane: { failure } } as AlertFact
  const names: AlertNames = { workspace, pipe, destination, url }
  const at = { alertId: example.alert_id, nowMs: Date.parse(example.timestamp), undeliveredMs: 1 }
  t.same(JSON.parse(JSON.stringify(standardAlert(fact, names, at))), example)
  t.end()
})

t.test('the table of alerts.md has each event, and no other', (t) => {
  const table = alerts.slice(alerts.indexOf('## Events'), alerts.indexOf('## Delivery'))
  const rows = [...table.matchAll(/^\| `([a-z_.]+)` \|/gm)].map(([, event]) => event)
  t.same(rows, alertEventNames)
  t.end()
})

const daemon = await shareDaemon()
t.teardown(() => daemon.close())
const own = { daemon: daemon.setup }

await walk('destination-down', own)
await walk('http-endpoint', own)
await walk('signatures', own)
await walk('recipes', own)
await walk('object-store', own)
await walk('nats', own)
await walk('alerts', own)
