import { readFileSync } from 'node:fs'
import t from 'tap'
import { configKeys } from '../../src/cli/destinations/config-keys.ts'
import { configSchema } from '../../src/contract/destination.ts'
import { destinationTypes, wordsOf } from '../../src/contract/destination-words.ts'
import { bytes, count } from '../../src/quantities.ts'

const whole = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const readme = whole.slice(whole.indexOf('\n### Destinations\n'))

/** A config's keys as the contract has them; a * follows those that are needed. */
function keysOf(type: (typeof destinationTypes)[number]): string[] {
  const schema = configSchema(type) as { properties: object; required?: string[] }
  return Object.keys(schema.properties).map((key) => (schema.required?.includes(key) ? `${key}*` : key))
}

for (const type of destinationTypes) {
  const { kind, defaultFlush: flush } = wordsOf(type)
  const row = readme.split('\n').find((line) => line.startsWith(`| \`${kind}\` | `)) ?? ''

  t.test(`${kind}: --help and the README name every config key of the contract, and no other`, async (t) => {
    const expected = keysOf(type).sort()
    t.same([...configKeys[type]].sort(), expected)
    const named = [...row.matchAll(/`([a-z_]+)`(\*?)/g)].map(([, key, needed]) => `${key}${needed}`)
    t.same(named.filter((key) => key !== kind).sort(), expected)
  })

  if (type === 'destination_pull') continue
  t.test(`${kind}: the README has the default limits of a batch`, async (t) => {
    const seconds = flush.maxSeconds === 0 ? 'sent at once' : `${flush.maxSeconds} s`
    t.ok(row.endsWith(`| ${count(flush.maxRecords)} records, ${bytes(flush.maxBytes)}, ${seconds} |`), row)
  })
}
