import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'

/** The output of `npm run build` for src/apps/dashboard. */
const built = new URL('../../dist/dashboard/', import.meta.url).pathname
const page = readFileSync(path.join(built, 'index.html'), 'utf8')
const maxFirstBytes = 120 * 1024

const files = readdirSync(built, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.join(entry.parentPath, entry.name))
const originals = files.filter((file) => !/\.(br|gz)$/.test(file))

t.test('the first page loads less than 120 KB of JavaScript, compressed', async (t) => {
  const scripts = [...page.matchAll(/(?:src|href)="\/dashboard\/([^"]+\.js)"/g)].map(
    (match) => match[1] ?? '',
  )
  t.ok(scripts.length > 0)
  const sizes = scripts.map((name) => readFileSync(path.join(built, `${name}.gz`)).length)
  const sum = sizes.reduce((total, size) => total + size, 0)
  t.ok(sum > 10_000 && sum < maxFirstBytes, `${sum} bytes as gzip`)
})

t.test('the page has no script or style of its own text and asks no other host', async (t) => {
  for (const [tag] of page.matchAll(/<(?:script|link)\b[^>]*>/g)) {
    t.match(tag, /(?:src|href)="\/dashboard\/assets\/[\w.-]+-[\w-]{8}\.\w+"/, tag)
  }
  t.notMatch(page, /<style|\son\w+=|style=/)
})

t.test('beside each file are its compressed forms', async (t) => {
  for (const file of originals) {
    const bytes = readFileSync(file)
    t.ok(gunzipSync(readFileSync(`${file}.gz`)).equals(bytes), `${file}.gz`)
    t.ok(brotliDecompressSync(readFileSync(`${file}.br`)).equals(bytes), `${file}.br`)
  }
})

t.test('nothing of the server is in it', async (t) => {
  for (const file of originals.filter((one) => one.endsWith('.js'))) {
    t.notMatch(readFileSync(file, 'utf8'), /better-sqlite3|node:fs|worker_threads|TypeBox/, file)
  }
})
