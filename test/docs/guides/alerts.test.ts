/** docs/alerts.md: walked, and its example is an alert as it is sent. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { type AlertNames, type StandardAlert, standardAlert } from '../../../src/alerts/message.ts'
import type { AlertFact } from '../../../src/alerts/rules.ts'
import { alertEventNames } from '../../../src/contract/alert-words.ts'
import { blocksOf, walk } from '../../support/guide-walker.ts'

const page = readFileSync(new URL('../../../docs/alerts.md', import.meta.url), 'utf8')

t.test('the example is what is sent of such a lane, field by field', (t) => {
  const json = blocksOf(page).find(({ language }) => language === 'json')
  const example = JSON.parse(json?.text ?? '{}') as Required<StandardAlert>
  const { workspace, pipe, destination, url, lane } = example
  const { error, attempts, first_failed_ts, msg_id } = lane
  const failure = { attempts, firstFailedMs: Date.parse(first_failed_ts), msgId: msg_id, error }
  const fact = { type: 'lane.stuck', heldBack: 0, lane: { failure } } as AlertFact
  const names: AlertNames = { workspace, lane: { pipe, destination }, url }
  const at = { alertId: example.alert_id, nowMs: Date.parse(example.timestamp), undeliveredMs: 1 }
  t.same(JSON.parse(JSON.stringify(standardAlert(fact, names, at))), example)
  t.end()
})

t.test('its table has each event, and no other', (t) => {
  const table = page.slice(page.indexOf('## Events'), page.indexOf('## Delivery'))
  const rows = [...table.matchAll(/^\| `([a-z_.]+)` \|/gm)].map(([, event]) => event)
  t.same(rows, alertEventNames)
  t.end()
})

await walk('alerts')
