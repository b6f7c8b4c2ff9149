import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { typeHelp } from '../../src/apps/cli/destinations/config-keys.ts'
import { destinationTypes, fieldsOf, wordsOf } from '../../src/contract/destination-words.ts'
import { pulledTypes, waitingTypes } from '../../src/contract/destinations/lane-facts.ts'

/**
 * A destination type is known by its own files and by one line in each of the tables: code elsewhere asks the facts of the type
 * (`contract/destinations/type-facts.ts`) or its descriptor, so that a new type changes nothing there.
 */
const root = new URL('../../src/', import.meta.url).pathname
const tables = ['contract/destination-words.ts', 'destinations/drivers.ts']
const ownFiles = /^(contract\/destinations|destinations\/[\w-]+)\//

const names = `destination_(?:${destinationTypes.map((type) => type.replace('destination_', '')).join('|')})`
const kinds = destinationTypes.map((type) => wordsOf(type).kind).join('|')
const comparisons = [
  new RegExp(`[!=]==? '${names}'`),
  new RegExp(`'${names}' [!=]==? `),
  new RegExp(`case '(?:${names})'`),
  new RegExp(`includes\\('${names}'`),
  new RegExp(`\\b${names}: `),
  // The specs of metadata have kinds, too.
  new RegExp(`(?<!spec\\.)\\bkind\\w* [!=]==? '(?:${kinds})'`),
]
const compares = (text: string) =>
  text.split('\n').filter((line) => comparisons.some((pattern) => pattern.test(line)))

t.test('no code but the tables and the own files of a type tells types apart by name', async (t) => {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.tsx?$/.test(name),
  )
  const others = files.filter((name) => !tables.includes(name) && !ownFiles.test(name))
  t.ok(others.length > 500)
  const found = others.flatMap((name) =>
    compares(readFileSync(path.join(root, name), 'utf8')).map((line) => `${name}: ${line.trim()}`),
  )
  t.same(found, [])
})

t.test('negative control: comparisons are found', async (t) => {
  const lines = [
    "if (type === 'destination_pull') return",
    "    case 'destination_nats':",
    "  destination_database: ['host*'],",
    "if ('destination_pull' !== type) return",
    "const isPulled = kind === 'pull'",
  ]
  for (const line of lines) t.same(compares(line), [line])
  t.same(compares("  destination_type: 'destination_pull',\n  case 'pull':"), [])
})

t.test('the help of a type has all of its keys, its examples and its guides', async (t) => {
  for (const type of destinationTypes) {
    const help = typeHelp(type)
    for (const [key] of fieldsOf(type)) t.match(help, new RegExp(`^  ${key}\\*? `, 'm'), `${type} ${key}`)
    for (const example of wordsOf(type).examples) t.ok(help.includes(example), example)
    for (const [page] of wordsOf(type).guides) t.ok(help.includes(`docs/${page}`), page)
  }
})

t.test('the facts for the first page of the dashboard are those of the tables', async (t) => {
  for (const type of destinationTypes) {
    const { isPulled, defaultFlush } = wordsOf(type)
    t.equal(pulledTypes.has(type), isPulled, type)
    t.equal(waitingTypes.has(type), defaultFlush.maxSeconds > 0, type)
  }
})
