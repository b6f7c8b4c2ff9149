/** docs/nats.md: walked, and its table has each key of the config. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { configSchema } from '../../../src/contract/destination.ts'
import { walk } from '../../support/guide-walker.ts'

t.test('its table has each key of the config, and no other', async (t) => {
  const page = readFileSync(new URL('../../../docs/nats.md', import.meta.url), 'utf8')
  const table = page.slice(page.indexOf('## The config'), page.indexOf('## Order'))
  const rows = table.split('\n').filter((line) => line.startsWith('| `'))
  const keys = rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, key]) => key),
  )
  const { properties } = configSchema('destination_nats') as { properties?: object }
  t.same(keys.sort(), Object.keys(properties ?? {}).sort())
})

await walk('nats')
