import t from 'tap'
import { configKeys } from '../../../src/apps/cli/destinations/config-keys.ts'
import { configSchema } from '../../../src/contract/destination.ts'
import { destinationTypes } from '../../../src/contract/destination-words.ts'

/** The keys of a config in the contract; a * marks the required ones. */
function keysOf(type: (typeof destinationTypes)[number]): string[] {
  const schema = configSchema(type) as { properties: object; required?: string[] }
  return Object.keys(schema.properties).map((key) => (schema.required?.includes(key) ? `${key}*` : key))
}

for (const type of destinationTypes) {
  t.test(`${type}: --help names every config key of the contract, and no other`, async (t) => {
    t.same([...configKeys[type]].sort(), keysOf(type).sort())
  })
}
