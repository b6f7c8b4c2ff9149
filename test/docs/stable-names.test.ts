/**
 * Names that operators write into rules and scripts, in stable-names.txt: docs/releases.md promises that none disappears
 * within a major version. Settings, commands, error codes and operations have generated lists of their own in docs/.
 *
 * `WRITE_NAMES=1 npm run test:file -- test/docs/stable-names.test.ts` writes the file again, with the names that are new. It must have all of
 * them when a release is made: as long as vendor/release/releases.json does not have the version of package.json. A name that is
 * removed there needs a new major version, and a line in the changelog.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import ts from 'typescript'

const root = new URL('../../', import.meta.url).pathname
const file = path.join(root, 'test/docs/stable-names.txt')
const { exits } = await import(path.join(root, 'vendor/docs/cli-facts.mjs'))

const sourcesIn = (folder: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(path.join(root, folder, name), 'utf8'))

const json = (name: string) => JSON.parse(readFileSync(path.join(root, name), 'utf8'))
const { version } = json('package.json')
const isReleased = json('vendor/release/releases.json').releases.some(
  (release: { version: string }) => release.version === version,
)

const levels = ['debug', 'info', 'warn', 'error', 'fatal']
const eventName = /^[a-z_]+(\.[a-z_]+)+$/

/** Names in the last argument of calls as `log.info(fields, 'lane.stuck')`. */
function logEvents(text: string): string[] {
  if (!/\blog/i.test(text)) return []
  const events: string[] = []
  const literals = (node: ts.Node): void => {
    if (ts.isStringLiteral(node) && eventName.test(node.text)) events.push(node.text)
    ts.forEachChild(node, literals)
  }
  const calls = (node: ts.Node): void => {
    const last = ts.isCallExpression(node) ? node.arguments.at(-1) : undefined
    if (last !== undefined && isLogCall((node as ts.CallExpression).expression)) literals(last)
    ts.forEachChild(node, calls)
  }
  calls(ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest))
  return events
}

function isLogCall(callee: ts.Expression): boolean {
  if (!ts.isPropertyAccessExpression(callee) || !levels.includes(callee.name.text)) return false
  const { expression } = callee
  const name = ts.isPropertyAccessExpression(expression) ? expression.name : expression
  return (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) && /log/i.test(name.text)
}

function metricNames(text: string): string[] {
  return [...text.matchAll(/['"`](pipectl_[a-z0-9_]*[a-z0-9])['"`]/g)].map(([, name = '']) => name)
}

const sorted = (names: readonly string[]) => [...new Set(names)].sort()
const current: Record<string, string[]> = {
  'exit codes': exits.map(([code]: [string | number]) => String(code)),
  'log events': sorted(sourcesIn('src').flatMap(logEvents)),
  metrics: sorted(sourcesIn('src/observe/metrics').flatMap(metricNames)),
}

function read(): Record<string, string[]> {
  const parts = readFileSync(file, 'utf8')
    .split(/^# (.*)\n/m)
    .slice(1)
  return Object.fromEntries(
    parts.flatMap((heading, at) =>
      at % 2 === 0 ? [[heading, (parts[at + 1] ?? '').trim().split('\n')]] : [],
    ),
  )
}

if (process.env.WRITE_NAMES === '1')
  writeFileSync(
    file,
    Object.entries(current)
      .map(([heading, names]) => `# ${heading}\n${names.join('\n')}\n`)
      .join('\n'),
  )

t.test('no name has disappeared, and a release lists all that it has', async (t) => {
  const listed = read()
  t.same(Object.keys(listed), Object.keys(current))
  for (const [heading, names] of Object.entries(listed)) {
    const now = current[heading] ?? []
    t.same(
      names.filter((name) => !now.includes(name)),
      [],
      `${heading} that were removed`,
    )
    const unlisted = now.filter((name) => !names.includes(name))
    t.same(isReleased ? [] : unlisted, [], `${heading} that are not listed yet`)
  }
})

t.test('the search finds names of each kind', async (t) => {
  t.ok(current['exit codes']?.includes('78'))
  t.ok((current['log events']?.length ?? 0) > 150)
  for (const name of ['daemon.ready', 'lane.stuck', 'buffer.rejecting'])
    t.ok(current['log events']?.includes(name), name)
  t.ok((current.metrics?.length ?? 0) > 50)
  for (const name of ['pipectl_lane_stuck', 'pipectl_buffer_rejecting'])
    t.ok(current.metrics?.includes(name), name)
  t.same(logEvents("this.#log.warn({ a: 1 }, isOdd ? 'one.two' : 'one.three')"), ['one.two', 'one.three'])
  t.same(logEvents("list.warn('one.two'); settings.get('log.level')"), [])
})
