import { readdirSync, readFileSync, statSync } from 'node:fs'
import t from 'tap'

const page = readFileSync(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8')
const manifest: Record<string, Record<string, string>> = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)
const section = page.split('\n## Dependencies\n')[1]?.split('\n## ')[0] ?? ''

t.test('ARCHITECTURE.md says of every dependency what it is for', async (t) => {
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

/** Everything below `place`, a folder or a file, as text. */
function sourceOf(place: string): string {
  const path = new URL(`../../${place}`, import.meta.url).pathname
  if (statSync(path).isFile()) return readFileSync(path, 'utf8')
  const files = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.tsx?$/.test(file),
  )
  return files.map((file) => readFileSync(`${path}/${file}`, 'utf8')).join('\n')
}

t.test('a dependency is imported where ARCHITECTURE.md says', async (t) => {
  const rows = [...section.matchAll(/^\| (?!package|---)(.+?) \| .* \| (`.*`) \|$/gm)]
  t.ok(rows.length > 14)
  for (const [, names = '', places = ''] of rows) {
    const packages = names
      .replace(/\(.*\)/, '')
      .trim()
      .split(', ')
    for (const [, place = ''] of places.matchAll(/`(src[^`]+)`/g)) {
      const source = sourceOf(place)
      const isImported = packages.some((name) => source.includes(`'${name}`))
      t.ok(isImported, `${names} in ${place}`)
    }
  }
})
