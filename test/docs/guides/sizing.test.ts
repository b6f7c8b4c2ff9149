/** docs/sizing.md: its figures are those of docs/benchmarks.md, its commands are there, and its sheet is what its sum gives. */
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'

const root = new URL('../../../', import.meta.url)
const [page, benchmarks] = ['docs/sizing.md', 'docs/benchmarks.md'].map((name) =>
  readFileSync(new URL(name, root), 'utf8'),
) as [string, string]

function numberIn(text: string, pattern: RegExp): number {
  const [, found] = pattern.exec(text) ?? []
  if (found === undefined) throw new Error(`nothing fits ${pattern}`)
  return Number(found.replaceAll(',', ''))
}

/** The figures of the page, rounded for people, and the measured ones. */
const figures: Record<string, [RegExp, RegExp]> = {
  'memory at rest': [/\| at rest \| (\d+) MB/, /memory \(RSS\) at rest, 1 worker +\| (\d+) MB/],
  'memory under load': [/\| under full load[^|]*\| (\d+) MB/, /under load at most, 1 worker +\| (\d+) MB/],
  'memory while delivering': [
    /databases at full speed \| \d+ to (\d+) MB/,
    /\| MariaDB insert +(?:\|[^|]*){6}\| (\d+) /,
  ],
  'memory under attack': [
    /\| ten minutes of attacks[^|]*\| (\d+) MiB/,
    /five workspaces took at most (\d+) MiB/,
  ],
  'a start with 10 GB': [/with none\s+\((\d\.\d) s/, /10 GB in the buffer +\| (\d\.\d)/],
  'single records': [
    /\| single records[^|]*\| ([\d,]+) /,
    /single record \| uws, 1 worker +\| 64 +\|[^|]*\| ([\d,]+) /,
  ],
  'arrays of 100': [
    /\| the same in arrays of 100 \| ([\d,]+) /,
    /array of 100 +\| uws, 1 worker +\| 16 +\|[^|]*\| ([\d,]+) /,
  ],
  'HTTP endpoint': [
    /HTTP endpoint, `ndjson` \| ([\d,]+) /,
    /\| HTTP endpoint, ndjson +\|[^|]*\|[^|]*\| ([\d,]+) /,
  ],
  'object store': [
    /object store, gzip \| ([\d,]+) /,
    /\| object store, gzip ndjson +\|[^|]*\|[^|]*\| ([\d,]+) /,
  ],
  'PostgreSQL upsert': [
    /PostgreSQL, on[^|]*\| ([\d,]+) to/,
    /\| PostgreSQL upsert +\|[^|]*\|[^|]*\| ([\d,]+) /,
  ],
  'PostgreSQL insert': [
    /PostgreSQL, on[^|]*\|[^|]*to ([\d,]+) /,
    /\| PostgreSQL insert +\|[^|]*\|[^|]*\| ([\d,]+) /,
  ],
  'MariaDB upsert': [/MariaDB, likewise \| ([\d,]+) to/, /\| MariaDB upsert +\|[^|]*\|[^|]*\| ([\d,]+) /],
  'MariaDB insert': [
    /MariaDB, likewise \|[^|]*to ([\d,]+) /,
    /\| MariaDB insert +\|[^|]*\|[^|]*\| ([\d,]+) /,
  ],
  '100 lanes': [
    /ingest of the pipe is (0\.\d+) of/,
    /ingest requests\/s, 1 against 100 lanes on the pipe +\|[^|]*\|[^|]*\| (0\.\d+)/,
  ],
}

t.test('each figure is the one that was measured, rounded', async (t) => {
  for (const [name, [said, measured]] of Object.entries(figures)) {
    const [figure, source] = [numberIn(page, said), numberIn(benchmarks, measured)]
    t.ok(Math.abs(figure - source) <= source * 0.06, `${name}: ${figure} for ${source}`)
  }
})

t.test('the commands that measure them are there', async (t) => {
  const { scripts } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'))
  const commands = [...page.matchAll(/`npm run ([\w:]+)(?: -- ([^`]+))?`/g)]
  t.ok(commands.length >= 4)
  for (const [, script = '', benches = ''] of commands) {
    t.ok(script in scripts, script)
    for (const name of script === 'bench' ? benches.split(' ') : [])
      t.ok(existsSync(new URL(`bench/${name}.ts`, root)), name)
  }
})

t.test('the sheet has room for three days of its records, and not much more', async (t) => {
  const rows = [...page.matchAll(/^\| ([\d,]+) \| .* \| (\d+) (GiB|TiB)[^|]*\|$/gm)]
  t.equal(rows.length, 4)
  for (const [, perSecond = '', size, unit] of rows) {
    // With what the page says a message takes besides its records.
    const needed = Number(perSecond.replaceAll(',', '')) * (500 + 110) * 3 * 86_400
    const room = Number(size) * 2 ** (unit === 'TiB' ? 40 : 30)
    t.ok(room >= needed && room < needed * 1.5, `${perSecond}: ${(needed / 2 ** 30).toFixed(1)} GiB`)
  }
})
