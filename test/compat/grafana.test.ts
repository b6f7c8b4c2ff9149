/**
 * monitoring/grafana.json has only members and values that Grafana's own types know. Grafana cannot be had here: TypeScript reads the
 * dashboard as a value of @grafana/schema.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { tried, versionIn } from './results.ts'

const dashboard = readFileSync(new URL('../../monitoring/grafana.json', import.meta.url), 'utf8')
/** JSON has the values of enumerations as plain strings. */
const head = `import type { Dashboard } from '@grafana/schema'
type Plain<T> = T extends string ? \`\${T}\` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T
export const dashboard: Plain<Dashboard> = `

function problemsOf(t: Test, json: string): string[] {
  // Below the checkout, so that the package is found.
  const file = path.join(t.testdir(), 'dashboard.ts')
  writeFileSync(file, head + json)
  const program = ts.createProgram([file], {
    ...{ strict: true, noEmit: true, skipLibCheck: true, types: [] },
    ...{ target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext },
  })
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
}

await tried(t, 'grafana', async (t) => {
  t.same(problemsOf(t, dashboard), [])
  for (const [right, wrong] of [
    ['"mode": "absolute"', '"mode": "absolut"'],
    ['"gridPos"', '"gridPosition"'],
    ['"refresh": 2', '"refresh": 7'],
  ] as const) {
    const changed = dashboard.replace(right, wrong)
    t.not(changed, dashboard)
    t.not(problemsOf(t, changed).length, 0, `negative control: ${wrong}`)
  }
  const manifest = createRequire(import.meta.url).resolve('@grafana/schema/package.json')
  return versionIn(readFileSync(manifest, 'utf8').match(/"version": .*/)?.[0] ?? '')
})
