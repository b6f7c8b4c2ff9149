import { readFileSync } from 'node:fs'
import t from 'tap'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const manifest: Record<string, Record<string, string>> = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)
const section = /## Dependencies\n([\s\S]*?)\n## /.exec(readme)?.[1] ?? ''

t.test('the README says of every dependency what it is for', async (t) => {
  for (const name of Object.keys(manifest.dependencies ?? {})) t.match(section, name, name)
  for (const name of Object.keys(manifest.devDependencies ?? {})) {
    t.match(section, name.startsWith('@types/') ? '@types/*' : name, name)
  }
})

t.test('what is native is pinned to one version', async (t) => {
  const native = [
    'better-sqlite3',
    'hyper-express',
    '@btc-vision/uwebsockets.js',
    '@trufflesuite/uws-js-unofficial',
  ]
  for (const name of native) t.match(manifest.dependencies?.[name], /^\d/, name)
})
